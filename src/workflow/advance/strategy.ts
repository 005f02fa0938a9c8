import type { Step, Strategy } from '../graph.ts'

/** How many children or leaves have ended, and how. */
export interface Endings {
  readonly completed: number
  readonly failed: number
  readonly cancelled: number
  readonly skipped: number
}

export interface Tally extends Endings {
  /** How many there are in the end. Absent while more may come, as leaves do while a child is active. */
  readonly total?: number
}

/** What a strategy looks at. Skipped children and handled failures are in none of the numbers. */
export interface Standing {
  readonly completed: number
  /** Failures for good. */
  readonly failed: number
  /** Of these, how many were cancelled. */
  readonly cancelled?: number
  /** Failures that a step which has not ended may still handle. */
  readonly inDoubt: number
  /** Not ended. `undefined` while nobody knows how many there will be. */
  readonly open: number | undefined
}

export type Verdict = { readonly state: 'completed' } | { readonly state: 'failed'; readonly error: string }

/**
 * The verdict on a fan-out, or `undefined` while it has none.
 *
 * @param tally Of its children, or with `of: leaves` of the leaf jobs below it. A composite that ended
 *   before it had children counts as one leaf when it failed, and not at all when it was skipped.
 */
export function settleFanout(step: Step, tally: Tally): Verdict | undefined {
  const { strategy } = step
  const standing = standingOf(tally)
  const state = strategyOutcome(strategy, standing)
  if (state !== 'failed') return state && { state }
  return { state, error: explainFailure(strategy, standing, strategy.of) }
}

/** A fan-out has no steps that could handle a failure. Nobody cancelled the fan-out: cancelled is failed. */
export function standingOf({ completed, failed, cancelled, skipped, total }: Tally): Standing {
  return {
    completed,
    failed: failed + cancelled,
    cancelled,
    inDoubt: 0,
    open: total === undefined ? undefined : total - completed - failed - cancelled - skipped,
  }
}

/**
 * Completed or failed, as soon as the strategy may say so: when nothing is open, or earlier when the
 * strategy is `early` and nothing that is open could change the verdict.
 */
export function strategyOutcome(strategy: Strategy, standing: Standing): 'completed' | 'failed' | undefined {
  if (!strategy.early && standing.open !== 0) return undefined
  if (mustSucceed(strategy, standing)) return 'completed'
  return mustFail(strategy, standing) ? 'failed' : undefined
}

/**
 * Why a fan-out that runs cannot succeed any more, whatever its open children do; `undefined` while it still can.
 *
 * @param tally Of its children. Where leaves are counted, only a failure under `all` is certain before they are known.
 */
export function foreseeFailure({ strategy }: Step, tally: Tally): string | undefined {
  if (strategy.of === 'leaves' && strategy.rule !== 'all') return undefined
  const standing = standingOf(tally)
  return mustFail(strategy, standing) ? explainFailure(strategy, standing, 'children') : undefined
}

/** Whether it succeeds even when everything that is open fails. */
function mustSucceed(strategy: Strategy, { completed, failed, inDoubt, open }: Standing): boolean {
  switch (strategy.rule) {
    case 'all':
      return open === 0 && failed === 0
    case 'any':
      return completed >= 1
    case 'atLeast':
      return completed >= (strategy.n ?? 1)
    case 'percent':
      return open !== undefined && completed >= share(strategy, completed + failed + inDoubt + open)
    case 'ignore':
      return open === 0
    default:
      return strategy.rule satisfies never
  }
}

/** Whether it fails even when everything that is open completes, and so handles what is in doubt. */
function mustFail(strategy: Strategy, { completed, failed, open }: Standing): boolean {
  switch (strategy.rule) {
    case 'all':
      return failed > 0
    case 'any':
      return open === 0 && completed === 0
    case 'atLeast':
      return open !== undefined && completed + open < (strategy.n ?? 1)
    case 'percent':
      return open !== undefined && completed + open < share(strategy, completed + open + failed)
    case 'ignore':
      return false
    default:
      return strategy.rule satisfies never
  }
}

/**
 * How many of `counted` a percentage asks for, rounded up.
 *
 * In thousandths of a percent, because 0.07 * 100 is a little more than 7 and would be rounded up to 8.
 */
function share(strategy: Strategy, counted: number): number {
  return Math.ceil((Math.round((strategy.n ?? 100) * 1000) * counted) / 100_000)
}

/** Why a composite failed by its strategy, with the numbers. */
export function explainFailure(strategy: Strategy, standing: Standing, noun: string): string {
  const { completed, failed, inDoubt, open } = standing
  const counted = completed + failed + inDoubt + (open ?? 0)
  const failures = open === undefined ? `${failed}` : `${failed} of ${counted}`
  switch (strategy.rule) {
    case 'all':
      return `${failures} ${noun} ${howEnded(standing)}; all must complete`
    case 'any':
      return counted === 0
        ? `no ${noun} ran; one must complete`
        : `none of ${counted} ${noun} completed; one must`
    case 'atLeast':
      return `${completed} of ${counted} ${noun} completed; at least ${strategy.n ?? 1} must`
    case 'percent':
      return `${completed} of ${counted} ${noun} completed; ${strategy.n ?? 100} % must, which is ${share(strategy, counted)}`
    case 'ignore':
      return `${failures} ${noun} ${howEnded(standing)}`
    default:
      return strategy.rule satisfies never
  }
}

function howEnded({ failed, cancelled = 0 }: Standing): string {
  if (cancelled === 0) return 'failed'
  if (cancelled < failed) return `did not complete (${failed - cancelled} failed, ${cancelled} cancelled)`
  return failed === 1 ? 'was cancelled' : 'were cancelled'
}
