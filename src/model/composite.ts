import type { CompositeKind, JobState } from './job.ts'
import type { JsonValue } from './json.ts'
import type { RetryPolicy } from './retry.ts'

/** A composite that was woken, with everything needed to decide its next steps. */
export interface TakenComposite {
  readonly id: string
  /** Valid only until another process takes the composite. */
  readonly version: number
  readonly kind: CompositeKind
  readonly state: JobState
  /** The hash of the graph it started with, and its position in that graph. */
  readonly graph: string
  readonly node: string
  readonly input: JsonValue
  /** How many children of a fan-out may be in flight. `null` means all. */
  readonly window: number | null
  /** How many children a fan-out will have, and how many of them have ended. */
  readonly total: number | null
  readonly completed: number
  readonly failed: number
  readonly cancelled: number
  /** The state it ends in once its children have ended. They are being stopped. */
  readonly closing: JobState | null
  readonly closingError: string | null
  /** All children have been asked to stop. */
  readonly closed: boolean
  readonly timedOut: boolean
  /** The next items of a fan-out to become children: the index of the first, and the items. */
  readonly chunk: number | null
  readonly chunkItems: readonly JsonValue[] | null
  /** Index and state of each child. `null` for a fan-out, whose children are counted. */
  readonly children: readonly (readonly [place: number, state: JobState])[] | null
  readonly wakeups: readonly string[]
}

/** The next change to a composite, as `sluice.advance_v1` accepts it. */
export interface Advance {
  readonly job: string
  readonly version: number
  readonly wakeups: readonly string[]
  readonly settle?: {
    readonly state: JobState
    readonly result?: JsonValue
    readonly error?: string | null
  }
  /** Stops the children. The composite then ends in this state, unless it has already ended. */
  readonly close?: { readonly state: JobState; readonly error?: string }
  /**
   * The chunk whose items are among the new children. `made` is set if only that many fit and the rest has to wait.
   */
  readonly chunk?: number
  readonly made?: number
  readonly rest?: readonly JsonValue[]
  /** Wakes it once more. */
  readonly again?: boolean
}

export interface NewChild {
  readonly parent: string
  readonly idx: number
  readonly step: string
  readonly kind: CompositeKind | null
  readonly task: string
  readonly node?: string
  readonly input?: JsonValue
  readonly state: JobState
  readonly error?: string
  readonly deadlineMs?: number
  /** Composites only. Leaf jobs have it in their policy. */
  readonly timeoutMs?: number
  readonly policy?: LeafPolicy
  readonly window?: number
  readonly total?: number
  /** Composites only: how many children it may have. */
  readonly below?: number
  /**
   * Workflows and groups only: the first steps, created together with it. Without them, it is woken to create them.
   */
  readonly first?: readonly FirstStep[]
}

/** A step of a composite that is created in the same transaction. */
export type FirstStep = Omit<NewChild, 'parent'>

/** Settings of a step that override those of its task. */
export interface LeafPolicy {
  readonly retry?: Partial<RetryPolicy>
  readonly timeoutMs?: number
}

/** The items of a fan-out among the new children. */
export interface NewChunk {
  readonly parent: string
  readonly idx: number
  readonly first: number
  readonly items: readonly JsonValue[]
}
