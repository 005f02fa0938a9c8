import type { LeafPolicy } from './composite.ts'
import type { ModelNews, ModelOnDevice } from './device.ts'
import type { ErrorDetail } from './error-detail.ts'
import type { Ending } from './job.ts'

/** A job given to a worker, with the lease that proves it. */
export interface Assignment {
  readonly id: string
  /** With the worker's identity the proof of ownership. 1 on the first try. */
  readonly attempt: number
  readonly task: string
  readonly lane: string
  /** Failures of earlier attempts. */
  readonly failures: number
  readonly priority: number
  readonly key: string | null
  readonly tags: readonly string[]
  /** ISO text, or the database's. */
  readonly submittedAt: string
  /** JSON text; parsed when the attempt starts, so that one bad input spoils only its own job. */
  readonly input: string | null
  /** What its step says instead of its task. */
  readonly policy?: LeafPolicy
  /** What it was submitted under, for traces. */
  readonly trace?: string
  /** The devices it draws from, sorted. Absent: it draws from none. */
  readonly devices?: readonly string[]
  /** The model it needs; it lies on `devices`. */
  readonly model?: string
  /**
   * There is no slot for it yet: it starts when another job of its lane has ended, the one with the lowest rank first. `again`: an answer before this one gave it
   * and was lost, so it may have been claimed long ago, and goes back instead of starting.
   */
  readonly prefetched?: { readonly rank: number; readonly again?: boolean }
}

export interface EndedAttempt {
  readonly id: string
  readonly attempt: number
  readonly ending: Ending
  /** Of what was thrown, if something was. */
  readonly detail?: ErrorDetail
  /** When it started, by `performance.now()`. Absent: when it was claimed. */
  readonly startedAt?: number
}

/** A job by the attempt that holds it. */
export interface JobAttempt {
  readonly id: string
  readonly attempt: number
}

/** A job that a worker has. */
export interface NamedJob extends JobAttempt {
  /** It runs no more: its ending comes with a later request. */
  readonly ended?: boolean
}

/** What a worker reports and asks for. */
export interface CycleRequest {
  readonly ended: readonly EndedAttempt[]
  /** Everything else that the worker holds, as it knows. Asked only where it is needed: a worker may hold thousands. */
  readonly running: () => readonly NamedJob[]
  /** Jobs it can take now, at most. */
  readonly free: number
  /** How many of those may be tasks that need a pool process. */
  readonly freeProcesses: number
  /** The most jobs of these tasks to take: the worker could not start them. Absent: there are none. */
  readonly limits?: ReadonlyMap<string, number>
  /** Absent: nothing has happened to models. */
  readonly news?: ModelNews
  /** Absent: the worker takes jobs only for free slots. */
  readonly prefetch?: Prefetch
}

/** What a worker says of jobs that it is assigned beyond its slots. */
export interface Prefetch {
  /** How many more jobs of a task in a lane it may be assigned, if it may have `most` of all tasks of the lane. */
  ahead(task: string, lane: string, most: number): number
  /** How many more jobs it may be assigned in all. */
  room(): number
  /** Whether assigned jobs of a task in a lane wait to be started. */
  holds(task: string, lane: string): boolean
  /** Whether an assigned job had not started when the endings of this request were taken. */
  isWaiting(id: string): boolean
  /** How many slots of a lane it uses until the answer comes: assigned jobs start in those that others leave. */
  slots(lane: string): number
  /**
   * From now on it starts none of the jobs that are waiting: the database takes them back.
   *
   * @throws where the worker has to be asked first, and has not been.
   */
  recall(): void
  /** The newest claim that the worker knew of when it sent this: it may be late. Absent: it shares a process with its session. */
  readonly newestClaim?: number
}

/** What an operator wants of a worker. */
export interface WorkerOrders {
  /** Jobs to cancel. */
  readonly cancels: readonly string[]
  /** Take nothing new. */
  readonly draining: boolean
  /** End, in an orderly way. May be repeated. */
  readonly stopping: boolean
}

/** What a worker hears after it has reported endings and asked for jobs. */
export interface CycleAnswer {
  /** Jobs to start: newly claimed, or given by an answer that did not arrive. */
  readonly assignments: readonly Assignment[]
  /** Of `running`: no longer held. They must be stopped and their results dropped. */
  readonly lost: readonly string[]
  /** Of `ended`: not held, or recorded before. Nothing was changed by them. */
  readonly refused: readonly JobAttempt[]
  /** Of `ended`: too much for one cycle, to be sent with the next. */
  readonly unsent?: readonly EndedAttempt[]
  /** Nothing was done: the worker has to hand back first what is waiting. */
  readonly recall?: boolean
  /** True when this round only set things right, and jobs may be waiting: run the next one at once. */
  readonly again: boolean
  /** Models that have to make room: no more jobs come for them. The worker says in a later cycle that they are unloaded. */
  readonly unload?: readonly ModelOnDevice[]
  /** True when the news of models that came with the request is stored. Otherwise it is sent again. */
  readonly newsTaken?: boolean
  /** Absent: nothing has changed. */
  readonly orders?: WorkerOrders
}

/** After how long the first of the jobs that come back later is due; null: none does. One without a delay, to the millisecond, is ready at once. */
export function firstDue(ended: readonly EndedAttempt[]): number | null {
  let first: number | null = null
  for (const { ending } of ended)
    if ('delayMs' in ending && Math.round(ending.delayMs) > 0 && (first === null || ending.delayMs < first))
      first = ending.delayMs
  return first
}
