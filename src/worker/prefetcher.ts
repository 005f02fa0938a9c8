import type { AssignedCells } from '../model/assigned-cells.ts'
import type {
  Assignment,
  CycleAnswer,
  EndedAttempt,
  JobAttempt,
  JobPosition,
  Prefetch,
} from '../model/assignment.ts'
import { taskInLane } from '../model/task-in-lane.ts'
import type { Attempts } from './attempts.ts'
import type { JobSource } from './job-source.ts'
import { HAND_BACK_MS, Prefetched } from './prefetched.ts'

/** Nothing is assigned whose start deadline is less than a second away. It starts within 100 ms, unless its answer took longer than this. */
const LATE_ANSWER_MS = 500

export interface PrefetcherOptions {
  readonly source: Pick<JobSource, 'staleByLane'>
  readonly assignedCells: AssignedCells
  /** Runs the jobs that start, and measures how fast they end. */
  readonly attempts: Pick<Attempts, 'countIn' | 'size' | 'start' | 'pace'>
  /** Tasks whose jobs may be assigned before there is a slot for them. */
  readonly prefetchable: ReadonlySet<string>
  /** False while the worker takes nothing: it drains, stops, is broken, or no heartbeat gets through. */
  readonly mayStart: () => boolean
  /** These go back to the queue: the next cycle has to report them. */
  readonly onHandedBack: (ended: readonly EndedAttempt[]) => void
  /** Only the database knows what this worker still holds: the next cycle has to ask. */
  readonly onDoubt: () => void
}

/**
 * The jobs that a worker is assigned beyond its slots, from the answer that brings them to their start or their return.
 *
 * A job is in one of these states:
 *
 * - *waiting*: in `#prefetched`, and in a cell that the heartbeat thread shares.
 * - *started*: `Attempts` runs it. The next cycle reports it.
 * - *handed back*: it goes to the queue with the next cycle, which reports it as `unstarted`. This happens when it has waited for 100 ms, after a hint that lanes or
 *   slots have changed, when the worker drains, stops or breaks down, and when the job is cancelled.
 * - *dropped*: the worker forgets it without a report, because the lease is lost or in doubt. The resync that follows returns it to the queue. Behind a server the
 *   job is given again, and is handed back then.
 *
 * What always holds:
 *
 * - A job starts only where fewer jobs of its lane run than `#slots` says. A cycle tells the database this number when it is sent (`begin`), and only slots
 *   that its answer gives raise it (`grant`). Jobs that are lost lower it, because their slots are lost too. So the jobs that run and the slots reserved for waiting jobs together never exceed the slots of the worker.
 * - Starting a job, handing it back and taking it back from a blocked loop each need the job's cell, which one of them gets. So a job starts at most once, and never after it
 *   has left the state *waiting*.
 * - After a recall or in doubt, no job starts that an earlier answer or the answer under way has brought.
 * - A cycle reports what had started when it was sent, however long it takes until the request is put together. `#leftSince` remembers what has been started,
 *   handed back or dropped meanwhile: to that cycle it is waiting.
 * - No job starts later than 100 ms after the answer that assigned it was read, even if the process stood still meanwhile, and none starts of an answer that took
 *   more than 500 ms, or that gives again what an answer before it gave. So none starts more than 600 ms after its claim.
 */
export class Prefetcher {
  readonly #options: PrefetcherOptions
  readonly #prefetched: Prefetched
  /** How many jobs of a lane may run: as many as the last cycle said, and those that its answer gave a slot. */
  #slots = new Map<string, number>()
  /** By lane: jobs that cannot be assigned, and get the slots before waiting jobs that come later. */
  #yieldTo: ReadonlyMap<string, readonly JobPosition[]> = new Map()
  /** `#slots` of all lanes together. */
  #allSlots = 0
  /** Jobs that were waiting when the last cycle was sent, or came with its answer, and wait no more. */
  readonly #leftSince = new Set<string>()
  /** The answer took so long that what it assigns might start after its deadline. */
  #isLate = false
  /** So many waiting jobs start only once the next cycle is on its way. */
  #keptBack = 0
  #filling = false
  /** What a cycle that was sent before the last recall brings goes back. */
  #wasRecalled = false
  /** What this worker holds was in doubt since the last cycle was sent: what that one brings is dropped. */
  #wasInDoubt = false
  /** How often the heartbeat thread had taken jobs back when the last cycle began. */
  #recallsBefore = 0
  #timer: NodeJS.Timeout | undefined
  /** What a cycle says of prefetched jobs. */
  readonly request: Prefetch = {
    ahead: (task, lane, most) => this.#ahead(task, lane, most),
    room: () => this.#prefetched.room,
    holds: (task, lane) => this.#prefetched.count(taskInLane(task, lane)) > 0,
    isWaiting: (id) => this.#prefetched.has(id) || this.#leftSince.has(id),
    slots: (lane) => this.#slots.get(lane) ?? 0,
    recall: () => void this.#dropWaiting(),
  }

  constructor(options: PrefetcherOptions) {
    this.#options = options
    this.#prefetched = new Prefetched(options.assignedCells, (id, isOurs) => {
      this.#leftSince.add(id)
      if (!isOurs) options.onDoubt()
    })
  }

  has(id: string): boolean {
    return this.#prefetched.has(id)
  }

  named(): JobAttempt[] {
    return this.#prefetched.named()
  }

  /** Jobs wait, and none of the slots that the worker had with the last cycle is idle. */
  get keepsSlotsBusy(): boolean {
    return (
      this.#prefetched.size > 0 && this.#yieldTo.size === 0 && this.#options.attempts.size >= this.#allSlots
    )
  }

  /** How many slots wait for prefetched jobs, in all lanes. */
  get reserved(): number {
    let reserved = 0
    for (const lane of this.#prefetched.lanes) reserved += this.#reservedIn(lane)
    return reserved
  }

  /** Whether what was assigned by the cycle under way, or before it, may be in other hands. */
  get isInDoubt(): boolean {
    return this.#wasInDoubt || this.#options.assignedCells.recalls !== this.#recallsBefore
  }

  /** How many more jobs of a task in a lane the worker may be assigned, where it may have `most` of the lane. */
  #ahead(task: string, lane: string, most: number): number {
    const { attempts, prefetchable, mayStart } = this.#options
    if (!mayStart() || !prefetchable.has(task)) return 0
    const key = taskInLane(task, lane)
    const ahead = attempts.pace.ahead(key, performance.now()) - this.#prefetched.count(key)
    return Math.max(0, Math.min(ahead, most - this.#prefetched.countIn(lane)))
  }

  /**
   * A cycle is about to be sent. What starts from now on is reported with the one after it.
   *
   * The cycle tells the database how many slots of each lane are in use until its answer comes: those of the jobs that run, and as many as waiting jobs can
   * still take of the others that this worker had until now. Nothing is reserved while what the worker holds is in doubt.
   *
   * The number of recalls is read once, because the heartbeat thread may take jobs back at any time: a recall that this call does not see is seen with the answer.
   *
   * @param asksFirst The cycle asks what the worker holds in any case.
   * @returns whether it has to ask, because the heartbeat thread has taken jobs back since the last one.
   */
  begin(asksFirst: boolean): boolean {
    const { assignedCells } = this.#options
    const recalls = assignedCells.recalls
    const asks = asksFirst || this.#wasInDoubt || recalls !== this.#recallsBefore
    this.#recallsBefore = recalls
    assignedCells.reuse()
    this.#leftSince.clear()
    this.#isLate = false
    this.#wasRecalled = false
    this.#wasInDoubt = false
    this.#reserve(asks)
    return asks
  }

  #reserve(isInDoubt: boolean): void {
    const { source, attempts } = this.#options
    if (isInDoubt) this.#slots = new Map()
    const slots = new Map<string, number>()
    for (const lane of source.staleByLane.keys())
      slots.set(lane, attempts.countIn(lane) + this.#reservedIn(lane))
    this.#slots = slots
    this.#allSlots = 0
    for (const each of slots.values()) this.#allSlots += each
  }

  #reservedIn(lane: string): number {
    const unused = this.#usable(lane) - this.#options.attempts.countIn(lane)
    return Math.max(0, Math.min(unused, this.#prefetched.countIn(lane)))
  }

  /** In how many slots of a lane waiting jobs may start. */
  #usable(lane: string): number {
    const slots = this.#slots.get(lane) ?? 0
    const next = this.#prefetched.first(lane)
    const others = this.#yieldTo.get(lane)
    if (next === undefined || others === undefined) return slots
    return slots - others.filter((each) => precedes(each, next)).length
  }

  /**
   * Leaves slots free for these jobs, as long as they come before those that are waiting, until the next answer. The next cycle asks for jobs for
   * these slots, and the database gives it those that come first.
   */
  yieldTo(jobs: CycleAnswer['yieldTo']): void {
    this.#yieldTo = new Map(Object.entries(jobs ?? {}))
  }

  /** The answer to the cycle arrived so long after it was sent. */
  noteAnswer(ageMs: number): void {
    this.#isLate = ageMs > LATE_ANSWER_MS
  }

  /** The database has given a slot to a job of this lane. */
  grant(lane: string): void {
    this.#slots.set(lane, (this.#slots.get(lane) ?? 0) + 1)
    this.#allSlots++
  }

  /** An answer brings this job. @param now By `performance.now()`. */
  accept(assignment: Assignment, now: number): void {
    if (this.isInDoubt) return
    const isOld = this.#isLate || assignment.prefetched?.again === true
    if (!this.#options.mayStart() || this.#wasRecalled || isOld || this.#prefetched.room === 0) {
      this.#options.onHandedBack([unstarted(assignment)])
      return
    }
    this.#prefetched.add(assignment, now)
    if (this.#timer === undefined) this.#watch()
  }

  /**
   * An answer has been acted on, and so many endings are to be reported. Starts waiting jobs, or leaves them until the next cycle is on its way.
   *
   * Worker and database work at the same time only if the next cycle has endings to report and jobs are left to run meanwhile. With enough endings, all jobs wait
   * for the cycle, because starting them would only delay it. With fewer, one half of the jobs starts at once, so that the cycle has their endings to report, and
   * the other half runs while the database records these. While jobs that take some time keep the slots busy, endings are gathered before the next cycle: half
   * of the waiting jobs are left for it.
   *
   * @returns false when all wait: the next cycle should be sent at once.
   */
  startSome(endings: number): boolean {
    const waiting = this.#prefetched.size
    const isEnough = waiting > 0 && endings > 0 && endings >= waiting / 2 && !this.keepsSlotsBusy
    this.#keptBack = isEnough ? waiting : waiting / 2
    if (!isEnough) this.fill()
    return !isEnough
  }

  /** Starts no waiting job while `act` acts on an answer, even if jobs end: `startSome` says afterwards how many start. */
  keepAllWhile(act: () => void): void {
    this.#keptBack = Number.POSITIVE_INFINITY
    try {
      act()
    } finally {
      this.#keptBack = 0
    }
  }

  /** The next cycle is on its way. */
  startAll(): void {
    this.#keptBack = 0
    this.fill()
  }

  /** Starts waiting jobs in the slots that others have left. */
  fill(): void {
    // A task that ends at once brings it here again: the loop below goes on by itself.
    if (this.#prefetched.size === 0 || this.#filling) return
    this.#filling = true
    try {
      for (const lane of [...this.#prefetched.lanes]) this.#fill(lane)
    } finally {
      this.#filling = false
    }
  }

  #fill(lane: string): void {
    const { attempts, mayStart } = this.#options
    const prefetched = this.#prefetched
    while (attempts.countIn(lane) < this.#usable(lane) && prefetched.size > this.#keptBack && mayStart()) {
      // A process that stood still must not start what it should have handed back: others may have it by now.
      const now = performance.now()
      const next = now - prefetched.eldest > HAND_BACK_MS ? undefined : prefetched.next(lane)
      if (next === undefined) return
      if (next === 'recalled') continue
      attempts.start(next.assignment)
      attempts.pace.waited(taskInLane(next.assignment.task, lane), now - next.since)
    }
  }

  /** Hands back what has waited for too long, and measures its tasks again before more of them is assigned. */
  #watch(): void {
    if (this.#prefetched.size === 0) return
    const waitMs = Math.max(0, this.#prefetched.eldest + HAND_BACK_MS - performance.now())
    this.#timer = setTimeout(() => {
      this.#timer = undefined
      const now = performance.now()
      const late = this.#prefetched.withdrawAll(now - HAND_BACK_MS)
      for (const { task, lane } of late) this.#options.attempts.pace.reset(taskInLane(task, lane), now)
      this.#return(late)
      this.#watch()
    }, waitMs)
  }

  /** Hands back all waiting jobs at once, and those that the cycle under way brings. */
  handBack(): void {
    this.#wasRecalled = true
    this.#return(this.#prefetched.withdrawAll())
  }

  /** Hands back one job that is not to be started. A cancel that was asked for wins over going back. */
  cancel(id: string): void {
    const withdrawn = this.#prefetched.withdraw(id)
    if (withdrawn !== undefined) this.#return([withdrawn])
  }

  #return(jobs: readonly Assignment[]): void {
    if (jobs.length > 0) this.#options.onHandedBack(jobs.map(unstarted))
  }

  /** The leases on these jobs are lost. Call it when they run no more: the slots that they had may be others' by now. */
  lose(ids: readonly string[]): void {
    for (const id of ids) this.#prefetched.withdraw(id)
    if (ids.length > 0) this.#useNoMoreSlots()
  }

  /** The leases are lost or in doubt: drops all waiting jobs, and those that the cycle under way brings. False: none was waiting. */
  dropAll(): boolean {
    this.#wasInDoubt = true
    return this.#dropWaiting()
  }

  #dropWaiting(): boolean {
    const dropped = this.#prefetched.withdrawAll()
    this.#useNoMoreSlots()
    return dropped.length > 0
  }

  /** What this worker holds is in doubt: it runs no more than it does now, until an answer gives it more slots. */
  #useNoMoreSlots(): void {
    const { attempts } = this.#options
    for (const lane of this.#slots.keys()) this.#slots.set(lane, attempts.countIn(lane))
    this.#allSlots = attempts.size
  }

  close(): void {
    clearTimeout(this.#timer)
  }
}

/** It goes back as if it had not been assigned. */
function unstarted({ id, attempt }: Assignment): EndedAttempt {
  return { id, attempt, ending: { kind: 'unstarted' } }
}

function precedes(one: JobPosition, { id, prefetched }: Assignment): boolean {
  const rank = prefetched?.rank ?? 0
  if (one.rank !== rank) return one.rank < rank
  return one.id.length === id.length ? one.id < id : one.id.length < id.length
}
