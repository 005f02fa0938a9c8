import type { Sluice } from '../../app/app.ts'
import type { JobHandle } from '../../app/job-handle.ts'
import { SluiceError } from '../../errors.ts'
import { ACTIVE_STATUSES, isFinal } from '../../model/job.ts'
import type { JobView } from '../../store/find-jobs.ts'
import { tiles } from './picture.ts'

const ARCHIVES = 36
const PRIMES = 10
/** More than one showing has. */
const ALL = 2000
const TAG = 'tour-'
/** The specials come first, so that there is time to tell their stories. */
const FIRST = 1000

/** A job that belongs to every showing. */
interface Part {
  readonly task: string
  readonly input: { readonly number: number } | { readonly day: string } | null
  readonly priority: number
  readonly key?: string
}

/** Stories that are told about single jobs at the end. */
export interface Stories {
  /** Was submitted twice with one key; the second submission got the same job. */
  attached: string | undefined
  /** Failed twice and then succeeded. */
  flaky: string | undefined
  /** Failed for good and was put back in line. */
  retried: string | undefined
}

/**
 * One showing of the tour: a fixed set of jobs with a tag in common. It lives in the database; whoever starts the tour
 * while one is unfinished goes on with it.
 */
export class Showing {
  readonly #app: Sluice
  readonly #tag: string
  readonly #tell: (event: string) => void
  readonly #told = new Set<string>()
  readonly stories: Stories = { attached: undefined, flaky: undefined, retried: undefined }
  /** Jobs of an earlier, interrupted run that were still to be done. */
  readonly continued: number
  /** Jobs that were done before this run. */
  readonly earlier: number
  jobs: readonly JobView[]
  readonly total: number

  private constructor(app: Sluice, tag: string, jobs: readonly JobView[], tell: (event: string) => void) {
    this.#app = app
    this.#tag = tag
    this.#tell = tell
    this.jobs = jobs
    this.continued = jobs.filter((job) => !isFinal(job.state)).length
    this.earlier = jobs.length - this.continued
    this.total = parts(tag).length
    // What an earlier run has seen needs no telling again.
    for (const { id, state } of jobs) if (isFinal(state)) this.#told.add(`${id} done`)
  }

  /** Finds an unfinished showing, or makes a new one. */
  static async find(app: Sluice, now: Date, tell: (event: string) => void): Promise<Showing> {
    const active = await app.listJobs({ status: ACTIVE_STATUSES, limit: ALL })
    const tag = active.flatMap((job) => job.tags).find((each) => each.startsWith(TAG))
    if (tag === undefined) return new Showing(app, `${TAG}${now.getTime()}`, [], tell)
    return new Showing(app, tag, await app.listJobs({ tag, limit: ALL }), tell)
  }

  get done(): number {
    return this.jobs.filter((job) => isFinal(job.state) && !isToBeRetried(job)).length
  }

  get finished(): boolean {
    return this.done >= this.total
  }

  /** Stores those of its jobs that are not there yet. */
  async submit(): Promise<void> {
    const present = new Set(this.jobs.map((job) => identity(job.task, job.input)))
    const missing = parts(this.#tag).filter((part) => !present.has(identity(part.task, part.input)))
    // Sent together they travel together: a few inserts in all.
    await Promise.all(missing.map((part) => this.#submitPart(part)))
    const keyed = missing.find((part) => part.key !== undefined)
    if (keyed !== undefined) await this.#submitAgain(keyed)
    await this.refresh()
  }

  #submitPart({ task, input, priority, key }: Part): Promise<JobHandle> {
    return this.#app.submit(task, input, { priority, tags: [this.#tag], ...(key !== undefined && { key }) })
  }

  async #submitAgain(part: Part): Promise<void> {
    const job = await this.#submitPart(part)
    if (!job.attached) return
    this.stories.attached = job.id
    this.#tell(`job ${job.id} was submitted twice with one key; the second time attached to it`)
  }

  /** Looks at the jobs, tells what is new about the special ones, and plays the operator where one needs it. */
  async refresh(): Promise<void> {
    this.jobs = await this.#app.listJobs({ tag: this.#tag, limit: ALL })
    for (const job of this.jobs) {
      if (job.task === 'tour.flaky') this.#followFlaky(job)
      else if (job.task === 'tour.import') await this.#followImport(job)
    }
  }

  #followFlaky(job: JobView): void {
    if (job.state === 'completed') {
      this.stories.flaky = job.id
      this.#once(`${job.id} done`, `job ${job.id} succeeded at attempt ${job.attempt}`)
    } else if (job.failures > 0) {
      this.#once(`${job.id} ${job.failures}`, `job ${job.id} failed (${job.error}); next try in 1 s`)
    }
  }

  async #followImport(job: JobView): Promise<void> {
    if (isToBeRetried(job)) {
      await this.#app.rerun(job.id)
      this.#once(`${job.id} retried`, `job ${job.id} failed for good (${job.error}): retried`)
    } else if (job.state === 'completed') {
      this.stories.retried = job.id
      this.#once(`${job.id} done`, `job ${job.id} succeeded after the retry`)
    }
  }

  #once(key: string, event: string): void {
    if (this.#told.has(key)) return
    this.#told.add(key)
    this.#tell(event)
  }

  /** Why what is left does not move. */
  async stalled(): Promise<SluiceError> {
    const waiting = this.jobs.filter((job) => !isFinal(job.state))
    const [first] = waiting
    const reason = first === undefined ? 'unknown' : (await this.#app.why(first.id)).reason
    return new SluiceError(
      'ILLEGAL_TRANSITION',
      `nothing has ended for a minute, and ${waiting.length} jobs of the tour are left. Job ${first?.id}: ${reason}`,
    )
  }
}

function isToBeRetried(job: JobView): boolean {
  return job.task === 'tour.import' && job.state === 'failed' && job.attempt === 1
}

function identity(task: string, input: unknown): string {
  const number = (input as { number?: unknown } | null)?.number
  return typeof number === 'number' ? `${task} ${number}` : task
}

function parts(tag: string): Part[] {
  const numbered = (task: string, number: number): Part => ({ task, input: { number }, priority: 0 })
  return [
    { task: 'tour.report', input: { day: 'today' }, priority: FIRST, key: tag },
    { task: 'tour.flaky', input: null, priority: FIRST },
    { task: 'tour.import', input: null, priority: FIRST },
    ...tiles().map(
      ({ number, distance }): Part => ({
        task: 'tour.tile',
        input: { number },
        priority: -Math.round(distance * 100),
      }),
    ),
    ...Array.from({ length: ARCHIVES }, (_, index) => numbered('tour.archive', index + 1)),
    ...Array.from({ length: PRIMES }, (_, index) => numbered('tour.primes', index + 1)),
  ]
}
