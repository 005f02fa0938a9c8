import { loadConfig } from '../../config/load-config.ts'
import { hasCode, SluiceError } from '../../errors.ts'
import type { Duration } from '../../model/duration.ts'
import { JobFailedError } from '../../model/job-failed-error.ts'
import { suggest } from '../../model/suggest.ts'
import { TASK_FIELDS } from '../../model/task-fields.ts'
import type { JobView } from '../../store/find-jobs.ts'
import { type Given, moment, setting, several, wholeNumber } from '../arguments.ts'
import type { CommonOptions, Declare, World } from '../command.ts'
import { EXIT, type ExitCode } from '../exit-code.ts'
import { fired } from '../interrupts.ts'
import { operate } from '../operate.ts'
import { isScheduled } from '../output/job-line.ts'
import { writeJson } from '../output/json.ts'
import { readInput } from '../read-input.ts'
import { HINT } from '../report-error.ts'
import { StatusLine } from '../status-line.ts'
import type { Submitted, System } from '../system.ts'

interface SubmitCommandOptions extends CommonOptions {
  readonly input?: string
  readonly key?: string
  readonly priority?: number
  readonly lane?: string
  readonly runAt?: Date | Duration
  readonly deadline?: Given<number | null>
  readonly tag?: readonly string[]
  readonly idempotencyKey?: string
  readonly wait?: boolean
}

const SAY_AFTER_MS = 2000

/** `sluice submit NAME` */
export const declareSubmit: Declare = (command, act) => {
  command
    .argument('<name>', 'name of the task or workflow')
    .option('--input <json>', 'the input: JSON, @FILE, or - for the standard input')
    .option('--key <key>', 'at most one active job per task and key; attaches to it if there is one')
    .option('--priority <number>', 'higher starts first, within a lane', wholeNumber)
    .option('--lane <name>', "a lane other than the task's")
    .option(
      '--run-at <time>',
      'do not start before this time, such as 2031-05-01T08:00:00Z, or 10m for ten minutes from now',
      moment,
    )
    .option(
      '--deadline <duration|none>',
      'how long the job may wait for its start before it fails; none: without limit',
      setting(TASK_FIELDS.deadline),
    )
    .option('--tag <tag>', 'a tag; may be repeated', several)
    .option('--idempotency-key <key>', 'with --server: a repeated request with the same key submits once')
    .option('--wait', 'wait until the job has ended, and print its result')
    .addHelpText(
      'after',
      '\nRegisters the lanes, tasks and workflows of the config file first, if there is one.' +
        '\nWith --server, it does not: the server has its own config.',
    )
    .action((task: string, options: SubmitCommandOptions) => act((world) => submit(world, task, options)))
}

async function submit(world: World, task: string, options: SubmitCommandOptions): Promise<ExitCode> {
  if (options.idempotencyKey !== undefined && world.server === undefined)
    throw new SluiceError('INVALID_ARGUMENT', '--idempotency-key requires --server', {
      details: { [HINT]: 'name one with --server or SLUICE_SERVER, or use --key: one active job per key' },
    })
  const input = await readInput(world, options.input)
  const config =
    world.server === undefined ? await loadConfig({ path: options.config, folder: world.folder }) : undefined
  const work = async (system: System) => {
    const job = await submitTo(system, task, input, options)
    if (options.wait === true) return await waitFor(world, system, job, options)
    const stored = await storedJob(system, job)
    const status = stored?.status ?? null
    if (options.json === true) writeJson(world.out, { id: job.id, attached: job.attached, status })
    else if (job.attached) {
      const how = status === null ? ', but is not yours to read' : ` and is ${status}`
      world.out.line(`job ${job.id} has this key already${how}; attached to it`)
    } else if (status === 'awaiting_approval')
      world.out.line(`job ${job.id} waits for approval by somebody else: sluice approve ${job.id}`)
    else if (stored !== null && isScheduled(stored))
      world.out.line(`job ${job.id} is scheduled for ${stored.readyAt.toISOString()}`)
    else world.out.line(`job ${job.id} is ${status}`)
    return EXIT.done
  }
  return operate(world, options, work, config)
}

/** A server attaches also to the job of somebody else, and tells no more than its id. */
async function storedJob(system: System, { id, attached }: Submitted): Promise<JobView | null> {
  try {
    return await system.getJob(id)
  } catch (error) {
    if (attached && hasCode(error, 'JOB_NOT_FOUND')) return null
    throw error
  }
}

async function submitTo(
  system: System,
  task: string,
  input: unknown,
  given: SubmitCommandOptions,
): Promise<Submitted> {
  const { key, priority, lane, runAt, deadline, tag, idempotencyKey } = given
  const options: Parameters<System['submit']>[2] = {
    ...(key !== undefined && { key }),
    ...(priority !== undefined && { priority }),
    ...(lane !== undefined && { lane }),
    ...(runAt !== undefined && { runAt }),
    ...(deadline !== undefined && { deadline: deadline.value }),
    ...(tag !== undefined && { tags: tag }),
    ...(idempotencyKey !== undefined && { idempotencyKey }),
  }
  try {
    return await system.submit(task, input, options)
  } catch (error) {
    if (hasCode(error, 'LANE_NOT_FOUND') && lane !== undefined) throw await unknownLane(system, lane, error)
    if (!hasCode(error, 'TASK_NOT_FOUND')) throw error
    const names = (await system.listTasks()).map(({ name }) => name)
    // A workflow that is known, whose tasks nobody has brought.
    if (names.includes(task)) throw error
    const near = suggest(task, names)
    const hint =
      near !== undefined
        ? `did you mean ${near}?`
        : names.length === 0
          ? 'no task or workflow is registered: define one in the config file, or start the program that has it'
          : `known are ${names.slice(0, 20).join(', ')}`
    throw new SluiceError('TASK_NOT_FOUND', error.message, {
      details: { name: task, [HINT]: hint },
      cause: error,
    })
  }
}

async function unknownLane(system: System, lane: string, error: SluiceError): Promise<SluiceError> {
  // Over a server the key may not be allowed to look at lanes; the message names some of them.
  const lanes = await system.listLanes().catch(() => [])
  const near = suggest(
    lane,
    lanes.map(({ name }) => name),
  )
  if (near === undefined) return error
  const details = { ...error.details, [HINT]: `did you mean ${near}?` }
  return new SluiceError(error.code, error.message, { details, cause: error })
}

async function waitFor(
  world: World,
  system: System,
  job: Submitted,
  options: CommonOptions,
): Promise<ExitCode> {
  const { soon } = world.interrupts.take()
  const line = new StatusLine(world.err, system, job.id)
  const stopped = fired(soon).then(() => 'stopped' as const)
  // At once where somebody watches; elsewhere only when it takes its time, so that a script's log stays short.
  const say = async (why: boolean) => {
    const found = why ? await system.why(job.id).catch(() => undefined) : undefined
    const what = found === undefined ? '' : ` (${found.job.status}: ${found.reason})`
    if (!ended)
      world.err.line(
        `waiting for job ${job.id}${what}; sluice show ${job.id} tells how it is, sluice why ${job.id} what it waits for`,
      )
  }
  let ended = false
  // The line below tells what it waits for as that changes.
  if (world.err.isTerminal) await say(false)
  const late = world.err.isTerminal ? undefined : setTimeout(() => void say(true), SAY_AFTER_MS)
  line.start()
  try {
    const outcome = await Promise.race([job.result().then((result) => ({ result })), stopped])
    line.stop()
    if (outcome === 'stopped') {
      world.err.line(`no longer waiting; job ${job.id} goes on: sluice show ${job.id}`)
      return world.interrupts.code ?? EXIT.failed
    }
    const { id, attached } = job
    writeJson(
      world.out,
      options.json === true ? { id, attached, status: 'completed', ...outcome } : outcome.result,
    )
    return EXIT.done
  } catch (error) {
    line.stop()
    const status = hasCode(error, 'JOB_FAILED')
      ? 'failed'
      : hasCode(error, 'JOB_CANCELLED')
        ? 'cancelled'
        : undefined
    if (status === undefined || !(error instanceof JobFailedError)) throw error
    if (options.json === true) {
      writeJson(world.out, { id: job.id, attached: job.attached, status, error: error.error })
      return EXIT.failed
    }
    throw new SluiceError(
      error.code,
      `job ${job.id} ${status === 'failed' ? 'failed' : 'was cancelled'}: ${error.error.replace(/^cancelled: /, '')}`,
      {
        details: { ...error.details, [HINT]: `sluice show ${job.id}; sluice logs ${job.id}` },
        cause: error,
      },
    )
  } finally {
    ended = true
    clearTimeout(late)
    line.stop()
  }
}
