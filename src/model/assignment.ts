import type { LeafPolicy } from './composite.ts'
import type { ModelNews, ModelOnDevice } from './device.ts'
import type { ErrorDetail } from './error-detail.ts'
import type { Ending } from './job.ts'

/** A job given to a worker, with the lease that proves it. */
export interface Assignment {
  readonly id: string
  /** Proves ownership, together with the worker's identity. 1 on the first attempt. */
  readonly attempt: number
  readonly task: string
  readonly lane: string
  /** Failures of earlier attempts. */
  readonly failures: number
  readonly priority: number
  readonly key: string | null
  readonly tags: readonly string[]
  /** ISO text, or the database's format. */
  readonly submittedAt: string
  /** JSON text, parsed when the attempt starts, so that an invalid input affects only its own job. */
  readonly input: string | null
  /** Settings of the workflow step that override those of the task. */
  readonly policy?: LeafPolicy
  /** The trace context of the submission. */
  readonly trace?: string
  /** The devices that the job uses, sorted. Absent when it uses none. */
  readonly devices?: readonly string[]
  /** The model that the job needs. It is loaded on `devices`. */
  readonly model?: string
  /**
   * Set when the job has no slot yet: it starts when another job of its lane ends, lowest rank first. `again` means
   * that an earlier response with this job was lost. The job may have been claimed long ago, so it is returned instead
   * of started.
   */
  readonly prefetched?: { readonly rank: number; readonly again?: boolean }
}

export interface EndedAttempt {
  readonly id: string
  readonly attempt: number
  readonly ending: Ending
  /** The detail of the error that was thrown. */
  readonly detail?: ErrorDetail
  /** When the attempt started, by `performance.now()`. Absent: when it was claimed. */
  readonly startedAt?: number
}

/** A job, identified with the attempt that holds it. */
export interface JobAttempt {
  readonly id: string
  readonly attempt: number
}

/** Where a job stands in its lane: by rank, then by id. */
export interface JobPosition {
  readonly rank: number
  readonly id: string
}

/** A job that the worker holds. */
export interface NamedJob extends JobAttempt {
  /** It no longer runs. A later request reports its outcome. */
  readonly ended?: boolean
}

/** What a worker reports and requests in one cycle. */
export interface CycleRequest {
  readonly ended: readonly EndedAttempt[]
  /**
   * All other jobs that the worker believes it holds. A function, because a worker may hold thousands and few cycles
   * need them.
   */
  readonly running: () => readonly NamedJob[]
  /** The most jobs that the worker can take now. */
  readonly free: number
  /** The most of those that may need a process of the process pool. */
  readonly freeProcesses: number
  /** Limits for tasks that the worker failed to start. Absent when there are none. */
  readonly limits?: ReadonlyMap<string, number>
  /** Absent when nothing has happened to models. */
  readonly news?: ModelNews
  /** Absent: the worker takes jobs for free slots only. */
  readonly prefetch?: Prefetch
}

/** What a worker reports about prefetched jobs. */
export interface Prefetch {
  /** How many more jobs of a task in a lane can be assigned, if the limit for all tasks of the lane is `most`. */
  ahead(task: string, lane: string, most: number): number
  /** How many more jobs can be assigned in total. */
  room(): number
  /** Whether assigned jobs of a task in a lane are waiting to start. */
  holds(task: string, lane: string): boolean
  /** Whether an assigned job had not started when this request collected its outcomes. */
  isWaiting(id: string): boolean
  /**
   * How many slots of a lane the worker uses until the response arrives. Assigned jobs start in slots that other jobs
   * free.
   */
  slots(lane: string): number
  /**
   * Stops the worker from starting the waiting jobs, because the database takes them back.
   *
   * @throws when the worker must confirm first and has not.
   */
  recall(): void
  /**
   * The newest claim that the worker knew of when it sent the request, which may arrive late. Absent when the worker
   * shares a process with its session.
   */
  readonly newestClaim?: number
}

/** What an operator has requested of a worker. */
export interface WorkerOrders {
  /** Jobs to cancel. */
  readonly cancels: readonly string[]
  /** Take no new jobs. */
  readonly draining: boolean
  /** Shut down gracefully. May be repeated. */
  readonly stopping: boolean
}

/** The response to a worker's cycle. */
export interface CycleAnswer {
  /** Jobs to start: newly claimed, or part of a response that was lost. */
  readonly assignments: readonly Assignment[]
  /** Jobs of `running` that the worker no longer holds. It must stop them and drop their results. */
  readonly lost: readonly string[]
  /** Jobs of `ended` that the worker does not hold or had already reported. They changed nothing. */
  readonly refused: readonly JobAttempt[]
  /** Jobs of `ended` that did not fit in this cycle. The worker sends them with the next one. */
  readonly unsent?: readonly EndedAttempt[]
  /** The request had no effect: the worker must first return its waiting jobs. */
  readonly recall?: boolean
  /**
   * By lane: jobs that the worker cannot be assigned, in order. Until the next answer, it leaves a slot free for each of them that comes before its
   * next prefetched job.
   */
  readonly yieldTo?: Readonly<Record<string, readonly JobPosition[]>>
  /** True when this cycle only restored consistency and jobs may be waiting. Run the next cycle at once. */
  readonly again: boolean
  /** Models to evict. They get no more jobs, and the worker reports in a later cycle that they are unloaded. */
  readonly unload?: readonly ModelOnDevice[]
  /** True when the model events of the request are stored. Otherwise the worker sends them again. */
  readonly newsTaken?: boolean
  /** Absent when nothing has changed. */
  readonly orders?: WorkerOrders
}

/**
 * Returns the delay until the first of the jobs to be retried is due, or null if none is. Delays under a millisecond
 * count as due at once.
 */
export function firstDue(ended: readonly EndedAttempt[]): number | null {
  let first: number | null = null
  for (const { ending } of ended)
    if ('delayMs' in ending && Math.round(ending.delayMs) > 0 && (first === null || ending.delayMs < first))
      first = ending.delayMs
  return first
}
