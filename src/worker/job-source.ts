import type { AssignedCells } from '../model/assigned-cells.ts'
import type { Assignment, CycleAnswer, CycleRequest, WorkerOrders } from '../model/assignment.ts'
import type { DeviceBudget, DeviceReading } from '../model/device.ts'
import type { AttemptServices } from './attempt.ts'

export interface SourceRequest extends CycleRequest {
  /** Nothing has happened, the time of a poll has come: only lanes that are due are looked at. */
  readonly poll: boolean
  /** What the worker holds is in doubt: the database has to be asked. */
  readonly resync: boolean
}

/** What a heartbeat brought. */
export interface SourceBeat extends WorkerOrders {
  /** Lanes in which the worker holds leases. */
  readonly lanes: readonly string[]
  /** The worker has to say what it runs. */
  readonly resync: boolean
  /** Another text means that its share of the host's cores may have changed. Null: it has none. */
  readonly shares: string | null
}

/** What a source reports between cycles. It only passes on what it hears: what follows is for the dispatcher to decide. */
export interface SourceEvents {
  /** There may be work: run a cycle soon. `again`: more may follow within milliseconds. */
  wake(again: boolean): void
  /** An answer to a question that was sent `ageMs` ago and is not waited for. */
  answered(answer: CycleAnswer, ageMs: number): void
  /** A heartbeat got through. Null: the worker has been declared dead. */
  beat(beat: SourceBeat | null): void
  /** What was decided about lanes or slots may not hold any more: assigned jobs that have not started go back. */
  recall(): void
  /** No heartbeat has got through for `silentMs`, and nothing at all came back for `unansweredMs`. */
  silent(silentMs: number, unansweredMs: number): void
}

/**
 * Where a worker gets its jobs and reports their endings: the database, or a server. It sends and receives; what the worker holds,
 * when it asks and what it trusts is the dispatcher's.
 */
export interface JobSource {
  readonly heartbeatMs: number
  /** `stale` of the lanes that this worker serves, by lane. */
  readonly staleByLane: ReadonlyMap<string, number>
  /** In how long an idle worker looks without a hint: the poll of some lane is due then. */
  readonly pollMs: number
  /** In how long it looks all the same: the last look may have missed something, or idle slots go back. Infinite: a poll is soon enough. */
  readonly lookAgainMs: number
  /** Where jobs that are assigned ahead are kept. */
  readonly assignedCells: AssignedCells
  /** Other workers are free that are given jobs first: after a hint this one looks less often. */
  readonly isBehind: boolean
  /** For how long no heartbeat has got through. */
  readonly silentMs: number
  /** Registers the worker and begins to listen. */
  open(events: SourceEvents): Promise<void>
  /** Registers the worker as another one, because it was declared dead. @param late Jobs that it still believed to hold. */
  startOver(late: readonly string[]): Promise<void>
  /**
   * Reports endings and asks for jobs. One at a time.
   *
   * @throws {SluiceError} `WORKER_NOT_FOUND` when the worker has been declared dead. After any other error nobody knows what was
   *   recorded: send the same again.
   */
  cycle(request: SourceRequest): Promise<CycleAnswer>
  /** The network is back after an outage: replaces connections on which nothing sent since then was answered. */
  renew(since: number): void
  servicesFor(assignment: Assignment, signal: AbortSignal): AttemptServices
  /** Resolves when the traces of this attempt are stored; `undefined` when there are none. */
  flush(assignment: Assignment): Promise<void> | undefined
  /**
   * Reports all the devices this worker offers. Gives the budgets that have devices: the next report is about those. An
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
  /** Ends the worker's registration. Everything must have been reported. */
  close(why: string): Promise<void>
}
