import type { LeafPolicy } from './composite.ts'
import type { ModelOnDevice } from './device.ts'
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
}

export interface EndedAttempt {
  readonly id: string
  readonly attempt: number
  readonly ending: Ending
  /** Of what was thrown, if something was. */
  readonly detail?: ErrorDetail
}

/** What a worker hears after it has reported endings and asked for jobs. */
export interface CycleAnswer {
  readonly assignments: readonly Assignment[]
  /** Jobs this worker believed to run and no longer holds: they must be stopped and their results dropped. */
  readonly lost: readonly string[]
  /** Endings that have not been recorded and must be sent again. */
  readonly unsent: readonly EndedAttempt[]
  /** False when the other side could not be reached: wait a moment before the next cycle. */
  readonly reached: boolean
  /** True when this round only set things right, and jobs may be waiting: run the next one at once. */
  readonly again: boolean
  /** Models that have to make room: no more jobs come for them. The worker says in a later cycle that they are unloaded. */
  readonly unload?: readonly ModelOnDevice[]
  /** True when the news of models that came with the request is stored. Otherwise it is sent again. */
  readonly newsTaken?: boolean
  /** True when this worker had been declared dead and is another one now: no model is charged to it. */
  readonly startedOver?: boolean
}
