import type { Queryable } from '../../db/database.ts'
import { isConnectionLoss, isRetryable, sqlState, translateError } from '../../db/sqlstate.ts'
import { hasCode } from '../../errors.ts'
import { withMember } from '../../model/json.ts'
import { insertAlike } from '../../store/insert-alike.ts'
import { insertJob } from '../../store/insert-job.ts'
import { insertJobs } from '../../store/insert-jobs.ts'
import { type SubmittedJob, submitJobs } from '../../store/submit-jobs.ts'
import { countsAgainst, type Lateness, refusingLimit } from './refusing-limit.ts'

/** One job as `sluice.submit_v1` takes it. */
export interface Submission {
  /** JSON text of an object: everything but the input. Jobs for which it is the same text are stored with less work. */
  readonly fields: string
  /** `fields` has nothing but its task and its owner. Such a job alone is stored with less work. */
  readonly isPlain: boolean
  /** JSON text. */
  readonly input: string
  /** The name of the task or workflow. */
  readonly task: string
  readonly key?: string | undefined
  /** Whose job it is to be; without one, that of the role of the session. */
  readonly owner?: string | undefined
  /** It has a key or a link, which only `sluice.submit_v1` stores; others take the faster insert. */
  readonly needsSubmit: boolean
  /** Given where it has a `runAt`. */
  readonly later?: Lateness | undefined
  /** Stored by another way than tasks. One that nobody knew to be one is found out by the database. */
  readonly workflow?: boolean
  /** Who submits it. The statement that stores the job writes a line of the audit too; without an author it writes none. */
  readonly author?: SubmissionAuthor | undefined
}

/** Who submits, for the audit. Submissions that are stored together and have the same object share one line. */
export interface SubmissionAuthor {
  readonly actor: string
  readonly keyId?: string | undefined
  readonly requestId?: string | undefined
  /** The reason that the author gave. */
  readonly reason?: string | undefined
}

type Sent = Pick<Submission, 'fields' | 'isPlain' | 'input' | 'task' | 'owner' | 'author'>

/** How many tasks the line of a bulk submission names. */
const MAX_AUDITED_TASKS = 20

/** Submissions as `sluice.submit_v1` takes them. */
function toJobs(submissions: readonly Sent[]): string {
  const [first, ...others] = submissions
  const shared = first?.author !== undefined && others.every(({ author }) => author === first.author)
  if (!shared || others.length === 0)
    return `[${submissions.map((each) => withInput(withAudit(each), each.input)).join(',')}]`
  // The first one carries the line for all of them.
  const tasks = [...new Set(submissions.map(({ task }) => task))].slice(0, MAX_AUDITED_TASKS)
  const rest = others.map(({ fields, input }) => withInput(fields, input))
  return `[${[withInput(withAudit(first, tasks), first.input), ...rest].join(',')}]`
}

function withInput(fields: string, input: string): string {
  return withMember(fields, 'input', input)
}

function withAudit({ fields, author }: Sent, tasks?: readonly string[]): string {
  if (author === undefined) return fields
  return withMember(fields, 'audit', JSON.stringify({ ...author, tasks }))
}

/** Whether they differ in their input only, and share the line in the audit if they leave any. One job alone is not worth it. */
function areAlike(submissions: readonly Sent[]): boolean {
  const [first] = submissions
  return (
    submissions.length > 1 &&
    submissions.every(({ fields, author }) => fields === first!.fields && author === first!.author)
  )
}

/** Jobs in one insert, at most. With 1,000 the round trip and the commit were a tenth of the time of a bulk submission. */
const MAX_BATCH = 4000
/** Characters in one insert; only a single job may have more. PostgreSQL refuses 256 MB of JSON in one value. */
const MAX_BATCH_CHARACTERS = 16 * 1024 * 1024

/** How many characters a job adds to an insert, at most. */
export function lengthOf({ fields, input }: Pick<Submission, 'fields' | 'input'>): number {
  return fields.length + input.length
}

/** True when one more job would make an insert too large. */
export function isFullBatch(jobs: number, characters: number): boolean {
  return jobs >= MAX_BATCH || characters >= MAX_BATCH_CHARACTERS
}

interface Waiting extends Sent {
  readonly later: Lateness | undefined
  readonly workflow: boolean
  readonly resolve: (job: SubmittedJob) => void
  readonly reject: (error: unknown) => void
}

/**
 * Stores jobs.
 *
 * Single submissions without a key that come while an insert is on its way are
 * merged into the next one, so that many producers share one commit. If a
 * merged insert is refused, its members are
 * sent one by one, so that each gets its own answer; where too many were sent for
 * a limit, the first of them as far as there is room. Submissions with a key go
 * alone: they may have to wait for a stranger's open transaction.
 */
export class Submitter {
  readonly #db: Queryable
  readonly #nudge: () => void
  #waiting: Waiting[] = []
  #sending = 0
  readonly #keyed = new Set<Promise<void>>()

  /** @param nudge Called after something was stored: a worker in this process need not wait for the hint. */
  constructor(db: Queryable, nudge: () => void) {
    this.#db = db
    this.#nudge = nudge
  }

  submit(submission: Submission): Promise<SubmittedJob> {
    if (submission.needsSubmit) return this.#submitKeyed(submission)
    return new Promise((resolve, reject) => {
      // Producers that were answered together submit together: wait until all of them have had their turn.
      if (this.#waiting.length === 0) process.nextTick(() => this.#pump())
      const { fields, isPlain, input, task, owner, later, author, workflow = false } = submission
      this.#waiting.push({ fields, isPlain, input, task, owner, later, author, workflow, resolve, reject })
    })
  }

  /** One after another but for two: each may wait for a stranger's transaction, and must not take all connections with it. */
  async #submitKeyed(submission: Submission): Promise<SubmittedJob> {
    while (this.#keyed.size >= 2) await Promise.race(this.#keyed)
    const sent = this.#send([submission], true)
    const settled = sent.then(
      () => {},
      () => {},
    )
    this.#keyed.add(settled)
    try {
      return (await sent)[0]!
    } finally {
      this.#keyed.delete(settled)
    }
  }

  /** All or none, in the order given. */
  async submitMany(submissions: readonly Submission[]): Promise<SubmittedJob[]> {
    if (submissions.length === 0) return []
    const oneByOne = submissions.some((each) => each.needsSubmit || each.workflow)
    return this.#send(submissions, oneByOne)
  }

  /** In the caller's transaction: stored when that commits. What the caller's own library throws is passed on as it is. */
  async submitIn(tx: Queryable, submissions: readonly Submission[]): Promise<SubmittedJob[]> {
    try {
      const jobs = await submitJobs(tx, toJobs(submissions), 'commit')
      // Prisma, and a pg with a parser of its own for int8, give ids as BigInt or number.
      return jobs.map(({ id, attached }) => ({ id: String(id), attached }))
    } catch (error) {
      const inner = error instanceof Error && sqlState(error.cause) !== undefined ? error.cause : error
      throw sqlState(inner) === undefined ? error : translateError(inner)
    }
  }

  #pump(): void {
    // Two under way: while one waits for the disk, the other is being parsed.
    while (this.#waiting.length > 0 && this.#sending < 2) {
      const batch = this.#takeBatch()
      this.#sending++
      void this.#sendMerged(batch).finally(() => {
        this.#sending--
        this.#pump()
      })
    }
  }

  #takeBatch(): Waiting[] {
    let length = 0
    let characters = 0
    for (const each of this.#waiting) {
      if (length > 0 && isFullBatch(length, characters + lengthOf(each))) break
      length++
      characters += lengthOf(each)
    }
    return this.#waiting.splice(0, length)
  }

  async #sendMerged(batch: readonly Waiting[]): Promise<void> {
    try {
      const workflows = batch.some((each) => each.workflow)
      const jobs = await this.#send(batch, workflows)
      batch.forEach((each, index) => {
        each.resolve(jobs[index]!)
      })
    } catch (error) {
      // An answer that was lost may stand for jobs that were stored: sending them again could double them.
      if (batch.length === 1 || isConnectionLoss(error)) {
        for (const each of batch) each.reject(error)
        return
      }
      const divided = hasCode(error, 'ADMISSION_REJECTED') ? divide(batch, error.details) : undefined
      if (divided !== undefined) {
        const [fitting, others] = divided
        for (const each of others) each.reject(error)
        if (fitting.length > 0) await this.#sendMerged(fitting)
        return
      }
      for (const each of batch) {
        await this.#send([each], each.workflow).then((jobs) => each.resolve(jobs[0]!), each.reject)
      }
    }
  }

  /** @param oneByOne Some have a key or are workflows. */
  async #send(jobs: readonly Sent[], oneByOne: boolean): Promise<SubmittedJob[]> {
    for (let tries = 0; ; tries++) {
      try {
        const stored = oneByOne ? await submitJobs(this.#db, toJobs(jobs), 'soon') : await this.#insert(jobs)
        this.#nudge()
        return stored
      } catch (error) {
        if (tries < 3 && isRetryable(error)) continue
        throw translateError(error)
      }
    }
  }

  async #insert(jobs: readonly Sent[]): Promise<SubmittedJob[]> {
    const [first] = jobs
    try {
      if (jobs.length === 1 && first!.isPlain) {
        const { task, input, owner, author } = first!
        const id = await insertJob(this.#db, {
          ...{ task, input },
          ...(owner !== undefined && { owner }),
          ...(author !== undefined && { author: JSON.stringify(author) }),
        })
        return [{ id, attached: false }]
      }
      const ids = areAlike(jobs)
        ? await insertAlike(
            this.#db,
            withAudit(first!),
            `[${jobs.map(({ input }) => input).join(',')}]`,
            'soon',
          )
        : await insertJobs(this.#db, toJobs(jobs), 'soon')
      return ids.map((id) => ({ id, attached: false }))
    } catch (error) {
      // Somebody submits a workflow by its name.
      if (sqlState(error) === 'SL006') return submitJobs(this.#db, toJobs(jobs), 'soon')
      throw error
    }
  }
}

/**
 * Those of a refused batch for which there is room, the first ones, and the others; at least one of them. One by one,
 * each of hundreds would be counted against the limit and refused by itself.
 *
 * `undefined` where the database counted others than their submissions tell: then each has to be asked for.
 */
function divide(
  batch: readonly Waiting[],
  details: Readonly<Record<string, unknown>>,
): [Waiting[], Waiting[]] | undefined {
  const limit = refusingLimit(details)
  const counted = batch.filter((each) => countsAgainst(limit, each)).length
  if (counted !== details.requested) return undefined
  let left = Math.min(limit.room, counted - 1)
  const fitting: Waiting[] = []
  const others: Waiting[] = []
  for (const each of batch) (!countsAgainst(limit, each) || left-- > 0 ? fitting : others).push(each)
  return [fitting, others]
}
