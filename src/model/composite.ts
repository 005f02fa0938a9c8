import type { CompositeKind, JobState } from './job.ts'
import type { JsonValue } from './json.ts'
import type { RetryPolicy } from './retry.ts'

/** A composite that was woken, with all that is needed to decide what comes next. */
export interface TakenComposite {
  readonly id: string
  /** Counts only as long as nobody else has taken it. */
  readonly version: number
  readonly kind: CompositeKind
  readonly state: JobState
  /** Hash of the graph it began with, and its place in it. */
  readonly graph: string
  readonly node: string
  readonly input: JsonValue
  /** How many children of a fan-out may be in flight; `null`: all. */
  readonly window: number | null
  /** How many children a fan-out has in the end, and how many of them have ended. */
  readonly total: number | null
  readonly completed: number
  readonly failed: number
  readonly cancelled: number
  /** What it will be once its children have ended: they are being stopped. */
  readonly closing: JobState | null
  readonly closingError: string | null
  /** All of them have been told. */
  readonly closed: boolean
  readonly timedOut: boolean
  /** Items of a fan-out that are to become children next: the place of the first, and the items. */
  readonly chunk: number | null
  readonly chunkItems: readonly JsonValue[] | null
  /** Of each child its place and state; `null` for a fan-out, whose children are counted. */
  readonly children: readonly (readonly [place: number, state: JobState])[] | null
  readonly wakeups: readonly string[]
}

/** What is to become of a composite, as `sluice.advance_v1` takes it. */
export interface Advance {
  readonly job: string
  readonly version: number
  readonly wakeups: readonly string[]
  readonly settle?: {
    readonly state: JobState
    readonly result?: JsonValue
    readonly error?: string | null
  }
  /** Stop the children; the composite then ends so, unless it has ended. */
  readonly close?: { readonly state: JobState; readonly error?: string }
  /** The chunk whose items are among the new children; or the first `made` of them, and the rest has to wait. */
  readonly chunk?: number
  readonly made?: number
  readonly rest?: readonly JsonValue[]
  /** Wake it once more. */
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
  /** Of a composite. A leaf has it in its policy. */
  readonly timeoutMs?: number
  readonly policy?: LeafPolicy
  readonly window?: number
  readonly total?: number
  /** Of a composite: how many children it may have. */
  readonly below?: number
  /** Of a workflow or group: its first steps, which are made with it. Without them it is woken to make them. */
  readonly first?: readonly FirstStep[]
}

/** A step of a composite that is made in the same transaction. */
export type FirstStep = Omit<NewChild, 'parent'>

/** What a step says instead of its task. */
export interface LeafPolicy {
  readonly retry?: Partial<RetryPolicy>
  readonly timeoutMs?: number
}

/** Items of a fan-out among the new children. */
export interface NewChunk {
  readonly parent: string
  readonly idx: number
  readonly first: number
  readonly items: readonly JsonValue[]
}
