/** Between the first failed starts of a task. A program may be missing for a moment, while it is replaced. */
const BACKOFF_MS = [500, 2000]
/** After the third one the task is withdrawn for this long; then one job tells whether it can be started again. */
const WITHDRAWN_MS = 60_000

interface Failing {
  failures: number
  /** No job of the task is taken before then. */
  until: number
  why: string
}

export interface Withdrawal {
  readonly task: string
  readonly why: string
  readonly retryMs: number
}

/** The tasks that one worker could not start lately. Times are those of `performance.now()`. */
export class FailedStarts {
  readonly #tasks = new Map<string, Failing>()

  has(task: string): boolean {
    return this.#tasks.has(task)
  }

  /** Counts a failed start. `withdrawn` is there when the task is withdrawn by this one, until it is tried again. */
  failed(task: string, why: string, now: number): { readonly retryMs: number; readonly withdrawn: boolean } {
    const failing = this.#tasks.get(task) ?? { failures: 0, until: 0, why }
    const wasWithdrawn = failing.failures > BACKOFF_MS.length && failing.until > now
    const retryMs = BACKOFF_MS[failing.failures] ?? WITHDRAWN_MS
    failing.failures += 1
    failing.why = why
    // Several that were taken together fail together: that is one reason to wait, not several.
    if (!wasWithdrawn) failing.until = now + retryMs
    this.#tasks.set(task, failing)
    return { retryMs: failing.until - now, withdrawn: failing.failures > BACKOFF_MS.length && !wasWithdrawn }
  }

  /** A job of the task has started. True when the task had been withdrawn. */
  started(task: string): boolean {
    const failing = this.#tasks.get(task)
    this.#tasks.delete(task)
    return failing !== undefined && failing.failures > BACKOFF_MS.length
  }

  /** How many jobs of these tasks may be taken now; `undefined` when nothing is limited. One at a time tries again. */
  limits(isStarting: (task: string) => boolean, now: number): ReadonlyMap<string, number> | undefined {
    if (this.#tasks.size === 0) return undefined
    const limits = new Map<string, number>()
    for (const [task, { until }] of this.#tasks) limits.set(task, now < until || isStarting(task) ? 0 : 1)
    return limits
  }

  /** How long until the next of them may be tried again. */
  nextMs(now: number): number {
    let next = Number.POSITIVE_INFINITY
    for (const { until } of this.#tasks.values()) if (until > now) next = Math.min(next, until - now)
    return next
  }

  /** Those that are withdrawn now. */
  withdrawn(now: number): Withdrawal[] {
    return [...this.#tasks]
      .filter(([, { failures, until }]) => failures > BACKOFF_MS.length && until > now)
      .map(([task, { why, until }]) => ({ task, why, retryMs: until - now }))
  }
}
