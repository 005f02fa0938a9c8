import type { Duration } from '../../model/duration.ts'
import type { RetryOptions } from '../../model/retry.ts'
import type { AnyStep, Given } from './reference.ts'

/** What every step may say. */
export interface StepOptionsBase {
  /** Steps that end before this one starts, besides those it reads. */
  readonly needs?: readonly AnyStep[]
  /** Which endings of the steps it needs lead here. Default `success`. */
  readonly on?: 'success' | 'failure' | 'always'
  /** False: the step is skipped. Rendered once the steps it needs have ended. */
  readonly when?: Given<boolean>
  /** How long it may take: one attempt of a task, the whole of a workflow, group or fan-out. */
  readonly timeout?: Duration
  /** How long its jobs may wait for capacity before they fail. */
  readonly deadline?: Duration | 'none' | null
}

export interface StepOptions extends StepOptionsBase {
  /** Of a task, over its own. */
  readonly retry?: RetryOptions
}

export interface GroupOptions extends StepOptionsBase {
  readonly strategy?: StrategyOption
}

interface FanOutPart {
  /** How many children may be in flight. Default: all. */
  readonly concurrency?: number
  readonly strategy?: StrategyOption
}

export interface FanOutOptions extends StepOptions, FanOutPart {}

export interface GroupFanOutOptions extends StepOptionsBase, FanOutPart {}

/** How a group or fan-out is judged by its children. Default `all`. */
export type StrategyOption =
  | 'all'
  | 'any'
  | 'ignore'
  | (StrategyDetails & { readonly rule: 'all' | 'any' | 'ignore' })
  | (StrategyDetails & { readonly atLeast: number })
  | (StrategyDetails & { readonly percent: number })

interface StrategyDetails {
  /** What is counted: direct children, which is the default, or the leaf jobs below them. */
  readonly of?: 'children' | 'leaves'
  /** True: it ends as soon as the verdict is certain, and the rest is cancelled. */
  readonly early?: boolean
}

/** Options in the words of a definition that are no options in code: they are arguments, or returned. */
export const ARGUMENTS = ['task', 'workflow', 'steps', 'with', 'with_items', 'batch', 'output'] as const
