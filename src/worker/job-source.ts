import type { Assignment, CycleAnswer, EndedAttempt } from '../model/assignment.ts'
import type { DeviceBudget, DeviceReading, ModelNews } from '../model/device.ts'
import type { AttemptServices } from './attempt.ts'

export interface CycleRequest {
  readonly ended: readonly EndedAttempt[]
  /** Jobs it can take now, at most. */
  readonly free: number
  /** How many of those may be tasks that need a pool process. */
  readonly freeProcesses: number
  /** Of these tasks it takes at most so many: it could not start them. Absent: there are none. */
  readonly limits?: ReadonlyMap<string, number>
  /** Nothing has happened, the time of a poll has come: only lanes that are due are looked at. */
  readonly poll?: boolean
  /** Absent: nothing has happened to models. */
  readonly news?: ModelNews
}

/** What a source tells its worker between cycles. */
export interface SourceEvents {
  /** There may be work: run a cycle soon. `again`: others may follow within milliseconds. */
  wake(again: boolean): void
  /** Somebody wants these jobs cancelled. */
  cancel(ids: readonly string[]): void
  /** Leases in these lanes can no longer be trusted: stop the jobs that run under them. */
  abandon(lanes: readonly string[], silentMs: number): void
  /** Take nothing new, or go on. */
  draining(draining: boolean): void
  /** How the cores of the host are shared out may have changed: ask for the share again. */
  sharesChanged(): void
  /** Somebody wants this worker to end, in an orderly way. May be told again and again. */
  stop(): void
}

/**
 * Where a worker gets its jobs and reports their endings: the database
 * directly, or a server. One cycle at a time.
 */
export interface JobSource {
  open(events: SourceEvents): Promise<void>
  cycle(request: CycleRequest): Promise<CycleAnswer>
  /** In how long an idle worker looks without a hint: the poll of some lane is due then. */
  readonly pollMs: number
  /** How long it waits at most this time, because the last look may have missed something. Infinite: a poll is soon enough. */
  readonly lookAgainMs: number
  /** Others are free that are given jobs first: after a hint it looks less often. */
  readonly isBehind: boolean
  /** True while slots are held that nothing runs in: run a cycle now and then to give them back. */
  readonly holdsIdle: boolean
  servicesFor(assignment: Assignment, signal: AbortSignal): AttemptServices
  /** Resolves when the traces of this attempt are stored; `undefined` when there are none. */
  flush(assignment: Assignment): Promise<void> | undefined
  /**
   * Tells all the devices this worker offers. Gives the budgets that have devices: the next report is about those. An
   * empty report is a question for them.
   *
   * @throws what the other side throws. The next report makes it good.
   */
  reportDevices(readings: readonly DeviceReading[]): Promise<readonly DeviceBudget[]>
  /**
   * Asks for this worker's share of the cores of its host. `held` is how many processes it has, those that are ending included.
   * Answers how many its process pool should have: after it has shrunk it asks again.
   *
   * @throws what the other side throws.
   */
  shareProcesses(held: number): Promise<number>
  /** This worker cannot start jobs any more and takes no new ones: let operators see it, and why. */
  broken(why: string): void
  /** This worker cannot start this task and takes no jobs of it for so long: let operators see it, and why. */
  withdrawTask(task: string, why: string, retryMs: number): void
  /** It has started a task that was withdrawn. */
  restoreTask(task: string): void
  /** Takes the worker off the books. Everything must have been reported. */
  close(why: string): Promise<void>
}
