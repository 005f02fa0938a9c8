import { dirname, join, resolve } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import type { Sluice } from '../../app/app.ts'
import type { LoadedConfig } from '../../config/load-config.ts'
import type { Log } from '../../engine/log.ts'
import type { TreeWatch } from '../../engine/streams/tree-watch.ts'
import { hasCode, messageOf, SluiceError } from '../../errors.ts'
import { isFinal } from '../../model/job.ts'
import { JobFailedError } from '../../model/job-failed-error.ts'
import type { World } from '../command.ts'
import { EXIT, type ExitCode } from '../exit-code.ts'
import { fired, type Stops } from '../interrupts.ts'
import { roughly } from '../output/in-words.ts'
import { writeJsonLine } from '../output/json.ts'
import { painter } from '../output/style.ts'
import { HINT } from '../report-error.ts'
import { continueRun } from './continue-run.ts'
import { type Display, displayFor } from './display.ts'
import { findRun, INTERRUPTED, unendedRuns } from './find-run.ts'
import { leavesOf, obstacleOf } from './obstacle.ts'
import { stepsOf } from './steps.ts'

/** What is to be run. */
export type Order =
  | { readonly kind: 'start'; readonly workflow: string; readonly input: unknown }
  | { readonly kind: 'resume'; readonly workflows: readonly string[]; readonly id: string | undefined }

export interface RunnerOptions {
  readonly json: boolean
  readonly capacity: number
  readonly database: string | undefined
  /** How the same is called again, and what other commands need to find the database. */
  readonly again: { readonly run: string; readonly rest: string }
}

interface Run {
  readonly app: Sluice
  readonly id: string
  readonly workflow: string
}

interface Ended {
  readonly status: 'completed' | 'failed' | 'cancelled'
  readonly result?: unknown
  readonly error?: string
}

const LOOK_MS = 200
const OBSTACLE_MS = 2000

/**
 * Runs one workflow to its end with a worker of its own, and shows it.
 *
 * The first signal stops what runs here, and only then cancels the workflow: until that is done, a second one can leave it
 * as it is. `--resume` continues it either way, and also after a failure.
 */
export class Runner {
  readonly #world: World
  readonly #config: LoadedConfig
  readonly #options: RunnerOptions
  readonly #display: Display
  #opening: Promise<Sluice> | undefined
  /** The cancel is on record: leaving does not undo it. */
  #cancelled = false

  constructor(world: World, config: LoadedConfig, options: RunnerOptions) {
    this.#world = world
    this.#config = config
    this.#options = options
    this.#display = displayFor(world, options.json)
  }

  async run(order: Order, { soon, now }: Stops): Promise<ExitCode> {
    try {
      const begun = await Promise.race([this.#begin(order), fired(soon)])
      if (begun === undefined) {
        this.#say('stopping as soon as the database is up; once more to leave at once')
        return this.#interrupted
      }
      const ended = await Promise.race([this.#watch(begun, soon), fired(soon)])
      if (ended !== undefined) return await this.#tell(begun, ended)
      return await Promise.race([this.#cancel(begun, now), fired(now).then(() => this.#leave(begun))])
    } finally {
      this.#display.stop()
      const app = this.#opening?.catch(() => undefined)
      await Promise.race([app?.then((each) => each?.close({ now: soon.aborted })), fired(now)])
      if (now.aborted) await Promise.race([app?.then((each) => each?.close({ now: true })), delay(3000)])
    }
  }

  get #interrupted(): ExitCode {
    return this.#world.interrupts.code ?? EXIT.failed
  }

  async #begin(order: Order): Promise<Run> {
    const { SLUICE_DATA } = this.#world.environment
    this.#opening = this.#world.open({
      config: this.#config,
      dataFolder: SLUICE_DATA
        ? resolve(this.#world.folder, SLUICE_DATA)
        : join(dirname(this.#config.file!), '.sluice'),
      log: this.#log(),
      settings: {
        // What runs when it is interrupted is asked to stop at once.
        shutdownGrace: 0,
        ...(this.#options.database !== undefined && { database: this.#options.database }),
      },
    })
    const app = await this.#opening
    const run = order.kind === 'start' ? await this.#start(app, order) : await this.#resume(app, order)
    await app.work({ capacity: this.#options.capacity, name: `run-${process.pid}` })
    return run
  }

  async #start(app: Sluice, { workflow, input }: Extract<Order, { kind: 'start' }>): Promise<Run> {
    const others = await unendedRuns(app, [workflow])
    const { id } = await app.submit(workflow, input)
    this.#display.begin(workflow, id, false)
    if (others.length > 0) {
      const ids = others.map((each) => each.id).join(', ')
      this.#display.tell(`earlier runs that have not ended go on meanwhile (${ids}); --resume watches one`)
    }
    return { app, id, workflow }
  }

  async #resume(app: Sluice, { workflows, id }: Extract<Order, { kind: 'resume' }>): Promise<Run> {
    const job = await findRun(app, workflows, id)
    const others = (await app.listWorkers()).filter(({ name }) => name.startsWith('run-'))
    const hadEnded = isFinal(job.state)
    const isFirst = !hadEnded || (await continueRun(app, job.id))
    this.#display.begin(job.task, job.id, true)
    if (!isFirst) this.#say('another command has resumed it already: this one follows and works along')
    else if (hadEnded) {
      const ended = job.status === 'failed' ? 'it had failed' : 'it was cancelled'
      this.#say(`${ended}: steps that did not complete run again`)
    }
    if (others.length > 0) {
      this.#display.tell(
        'what a killed run held is taken over when its lease ends, after about 15 s by default',
      )
    }
    return { app, id: job.id, workflow: job.task }
  }

  async #watch({ app, id }: Run, stop: AbortSignal): Promise<Ended> {
    const watch = app.watchTree(id)
    const over = new AbortController()
    const shown = this.#options.json
      ? undefined
      : this.#show(app, watch, AbortSignal.any([stop, over.signal]))
    try {
      return await endOf(app, id, stop)
    } finally {
      over.abort()
      await shown
      if (!stop.aborted && !this.#options.json) this.#display.show(await watch.look())
    }
  }

  async #show(app: Sluice, watch: TreeWatch, stop: AbortSignal): Promise<void> {
    let askedAt = performance.now()
    while (!stop.aborted) {
      // The view is no reason to end: what cannot be seen now is seen later.
      const view = await watch.look().catch(() => undefined)
      if (view !== undefined) this.#display.show(view)
      if (view !== undefined && performance.now() - askedAt > OBSTACLE_MS) {
        askedAt = performance.now()
        this.#display.note(await obstacleOf(app, view).catch(() => undefined))
      }
      await delay(LOOK_MS, undefined, { signal: stop }).catch(() => {})
    }
  }

  async #cancel(run: Run, now: AbortSignal): Promise<ExitCode> {
    const { app, id } = run
    this.#say('stopping what runs, then cancelling; once more to leave it as it is')
    await app.stopWorking()
    if (now.aborted) return this.#interrupted
    this.#cancelled = true
    try {
      await app.cancel(id, INTERRUPTED)
    } catch (error) {
      // It may have ended by itself in the last moment.
      if (!hasCode(error, 'ILLEGAL_TRANSITION')) throw error
    }
    const ended = await endOf(app, id, now)
    this.#display.show(await app.watchTree(id).look())
    this.#display.stop()
    if (this.#options.json) await this.#writeJson(run, ended)
    else {
      const hint =
        ended.status === 'cancelled' ? `; to continue: ${this.#options.again.run} --resume ${id}` : ''
      this.#world.err.line(`${run.workflow} was interrupted and is ${ended.status} (job ${id})${hint}`)
    }
    return this.#interrupted
  }

  #leave({ id, workflow }: Run): ExitCode {
    this.#display.stop()
    if (this.#options.json) writeJsonLine(this.#world.out, { id, workflow, status: 'running' })
    else if (this.#cancelled)
      this.#world.err.line(`left while job ${id} is being cancelled; the next worker ends that`)
    else this.#world.err.line(`left as it is; to continue: ${this.#options.again.run} --resume ${id}`)
    return this.#interrupted
  }

  async #tell(run: Run, ended: Ended): Promise<ExitCode> {
    this.#display.stop()
    if (this.#options.json) await this.#writeJson(run, ended)
    const { status } = ended
    if (status === 'completed') {
      if (!this.#options.json) await this.#writeResult(run, ended.result)
      return EXIT.done
    }
    if (this.#options.json) return EXIT.failed
    const verb = status === 'failed' ? 'failed' : 'was cancelled'
    const resume = `to run again what did not complete: ${this.#options.again.run} --resume ${run.id}`
    const hint = status === 'failed' ? `${await this.#whereToLook(run)}; ${resume}` : resume
    throw new SluiceError(
      status === 'failed' ? 'JOB_FAILED' : 'JOB_CANCELLED',
      `${run.workflow} ${verb} (job ${run.id}): ${ended.error}`,
      { details: { jobId: run.id, [HINT]: hint } },
    )
  }

  /** The first task that failed has the log worth reading. */
  async #whereToLook({ app, id }: Run): Promise<string> {
    const { rest } = this.#options.again
    const { root } = await app.watchTree(id).look()
    const leaf = leavesOf(root).find(({ status }) => status === 'failed')
    const trace = `causes: sluice trace${rest} ${id}`
    return leaf?.id === undefined ? trace : `log: sluice logs${rest} ${leaf.id}; ${trace}`
  }

  async #writeResult({ app, id, workflow }: Run, result: unknown): Promise<void> {
    const { out } = this.#world
    const { startedAt, finishedAt } = await app.getJob(id)
    const took = roughly((finishedAt?.getTime() ?? 0) - (startedAt?.getTime() ?? 0))
    out.line(`${painter(out)('green', `${workflow} completed`)} in ${took} (job ${id})`)
    if (result !== null && result !== undefined) out.line(JSON.stringify(result, null, 2))
  }

  async #writeJson({ app, id, workflow }: Run, ended: Ended): Promise<void> {
    writeJsonLine(this.#world.out, { id, workflow, ...ended, steps: await stepsOf(app, id) })
  }

  #say(text: string): void {
    if (this.#options.json) return
    this.#display.tell(text)
  }

  /** What the worker warns of concerns whoever watches; the rest does not. */
  #log(): Log {
    const quiet = () => {}
    const loud = (fields: object, message: string) => {
      const { job, error } = fields as { job?: unknown; error?: unknown }
      const about = job === undefined ? '' : `job ${String(job)}: `
      this.#say(`${about}${message}${error === undefined ? '' : ` (${String(error)})`}`)
    }
    return { debug: quiet, info: quiet, warn: loud, error: loud }
  }
}

/** Waits for the end of a run. Never settles once the signal has fired: somebody else goes on from there. */
async function endOf(app: Sluice, id: string, stop: AbortSignal): Promise<Ended> {
  try {
    return { status: 'completed', result: await app.job(id).result({ signal: stop }) }
  } catch (error) {
    if (stop.aborted) return new Promise<never>(() => {})
    const message = error instanceof JobFailedError ? error.error : messageOf(error)
    if (hasCode(error, 'JOB_FAILED')) return { status: 'failed', error: message }
    if (hasCode(error, 'JOB_CANCELLED')) return { status: 'cancelled', error: message }
    throw error
  }
}
