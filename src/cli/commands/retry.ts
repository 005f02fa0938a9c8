import { InvalidArgumentError } from 'commander'
import type { Retried } from '../../engine/operate/retry-tree.ts'
import { hasCode, SluiceError } from '../../errors.ts'
import type { JobView } from '../../store/find-jobs.ts'
import type { Declare, World } from '../command.ts'
import { eachJob } from '../each-job.ts'
import type { ExitCode } from '../exit-code.ts'
import { filterOf } from '../filter-options.ts'
import { addManyOptions, isFiltered, type ManyFlags, manyJobs } from '../many-jobs.ts'
import { count } from '../output/in-words.ts'
import { readInput } from '../read-input.ts'
import { HINT } from '../report-error.ts'
import type { System } from '../system.ts'

function errorGroup(text: string): string {
  if (/^[0-9a-f]{12}$/.test(text)) return text
  throw new InvalidArgumentError(
    'Write the GROUP that sluice errors shows: 12 of the characters 0-9 and a-f.',
  )
}

interface RetryCommandOptions extends ManyFlags {
  readonly failed?: boolean
  readonly from?: string
  readonly input?: string
}

/** `sluice retry JOB...` */
export const declareRetry: Declare = (command, act) => {
  command
    .argument('[job...]', 'ids of finished jobs')
    .option('--failed', 'of a workflow: run failed jobs again, and all that depends on them')
    .option('--from <step>', 'of a workflow: run this step again, and all that depends on it')
    .option(
      '--input <json>',
      'with --from: a new input for the step: JSON, @FILE, or - for the standard input',
    )
  addManyOptions(command)
  command.option('--group <group>', 'only failures of this group, as listed by sluice errors', errorGroup)
  command
    .addHelpText(
      'after',
      '\nThe history of a job is kept, and its failure count starts at zero. Completed jobs of a workflow keep their results.' +
        '\nJobs of one workflow run again together. With a filter instead of ids: all matching jobs that have failed;' +
        '\ncancelled jobs only with --status cancelled. --dry-run lists the workflows and counts the jobs that would run.',
    )
    .action((ids: string[], options: RetryCommandOptions) => act((world) => retry(world, ids, options)))
}

async function retry(world: World, ids: readonly string[], options: RetryCommandOptions): Promise<ExitCode> {
  const { failed, from } = options
  checkFlags(options)
  if (isFiltered(ids, options))
    return manyJobs(world, options, 'queued again', (system, filter, dry) => system.retryMany(filter, dry))
  const given = options.input === undefined ? {} : { input: await readInput(world, options.input) }
  const what = {
    ...(failed === undefined ? {} : { failed }),
    ...(from === undefined ? {} : { from }),
    ...given,
  }
  const together = new Together(ids, what)
  return eachJob(world, options, ids, async (system, id) => {
    if (failed === undefined && from === undefined) checkPlain(await system.getJob(id))
    const retried = await together.retry(system, id)
    const { root, jobs, superseded } = retried
    const plain = failed === undefined && from === undefined && root === id
    if (plain) return { words: 'queued again', fields: { status: 'queued' } }
    return {
      words: retrySummary(id, retried, options),
      fields: { root, jobs, superseded, status: root === id ? 'running' : 'queued' },
    }
  })
}

/** Retries the jobs that were named. Those of one workflow run again together: after the first, the others would be refused. */
class Together {
  readonly #ids: readonly string[]
  readonly #what: Parameters<System['retry']>[1] & {}
  readonly #roots = new Map<string, string>()
  readonly #byRoot = new Map<string, Promise<Retried>>()

  constructor(ids: readonly string[], what: Parameters<System['retry']>[1] & {}) {
    this.#ids = ids
    this.#what = what
  }

  async retry(system: System, id: string): Promise<Retried> {
    if (this.#what.from !== undefined || this.#ids.length === 1) return system.retry(id, this.#what)
    if (this.#roots.size === 0) await this.#findRoots(system)
    const root = this.#roots.get(id)
    const siblings = this.#ids.filter((each) => root !== undefined && this.#roots.get(each) === root)
    if (root === undefined || siblings.length < 2) return system.retry(id, this.#what)
    let together = this.#byRoot.get(root)
    if (together === undefined) {
      together = system.retry(root, { failed: true, only: siblings })
      this.#byRoot.set(root, together)
    }
    const retried = await together.catch((error: unknown) => {
      // None of them can: each says why itself.
      if (hasCode(error, 'ILLEGAL_TRANSITION')) return system.retry(id, this.#what)
      throw error
    })
    const refusal = retried.refused.find((each) => each.id === id)
    if (refusal === undefined) return retried
    throw new SluiceError('ILLEGAL_TRANSITION', refusal.detail, { details: { jobId: id } })
  }

  /** Without --failed a workflow, group or fan-out is refused, so it does not run again with the others either. */
  async #findRoots(system: System): Promise<void> {
    for (const id of this.#ids) {
      const job = await system.getJob(id).catch((error: unknown) => {
        if (hasCode(error, 'JOB_NOT_FOUND')) return undefined
        throw error
      })
      if (job === undefined || (this.#what.failed === undefined && job.kind !== null)) continue
      this.#roots.set(id, job.rootId ?? id)
    }
  }
}

/** The library says the same in the names of its options. */
function checkFlags(options: RetryCommandOptions): void {
  const { failed, from, input } = options
  if (from !== undefined && Object.keys(filterOf(options)).length > 0)
    throw new SluiceError(
      'INVALID_ARGUMENT',
      '--from: a step is one of a workflow; a filter finds many: name the job',
    )
  if (failed === true && from !== undefined)
    throw new SluiceError('INVALID_ARGUMENT', '--failed and --from cannot be combined: use one of them')
  if (input !== undefined && from === undefined)
    throw new SluiceError(
      'INVALID_ARGUMENT',
      '--input: only a step gets another input: name it with --from STEP',
    )
}

function checkPlain({ id, kind }: JobView): void {
  if (kind === null) return
  const what = kind === 'fanout' ? 'fan-out' : kind
  const from = kind === 'fanout' ? '' : ', --from STEP a step and what follows from it'
  throw new SluiceError(
    'INVALID_ARGUMENT',
    `job ${id} is a ${what}: say what of it runs again; --failed: what failed in it${from}`,
    { details: { jobId: id, [HINT]: `sluice retry ${id} --failed` } },
  )
}

function retrySummary(
  id: string,
  { root, jobs, superseded }: Retried,
  { from }: RetryCommandOptions,
): string {
  const which = root === id ? 'runs again' : `runs again, with its root, job ${root}`
  const parts = [
    ...(from === undefined ? [] : [`from step ${from} on`]),
    ...(jobs === 0 ? [] : [`${count(jobs, 'job')} queued again`]),
    ...(superseded === 0 ? [] : [`${count(superseded, 'step')} to be decided again`]),
  ]
  return parts.length === 0 ? which : `${which}: ${parts.join(', ')}`
}
