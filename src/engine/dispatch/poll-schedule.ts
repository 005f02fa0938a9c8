import { EARLY_TIMER_MS } from '../../model/limits.ts'

/** A worker without lanes, or with long polls only, still looks this often. */
const LONGEST_MS = 30_000

/**
 * When each lane is polled next. A look for any other reason counts as a poll of its lanes.
 *
 * `polls` has the current poll interval of each lane, so a change takes effect with the next call.
 */
export class PollSchedule {
  readonly #looks = new Map<string, { readonly at: number; readonly jitter: number }>()

  /** In how long the next lane is due. */
  nextMs(polls: ReadonlyMap<string, number>, now: number): number {
    let next = LONGEST_MS
    for (const [lane, pollMs] of polls) next = Math.min(next, Math.max(0, this.#dueAt(lane, pollMs) - now))
    return next
  }

  due(polls: ReadonlyMap<string, number>, now: number): ReadonlySet<string> {
    return new Set(
      [...polls]
        .filter(([lane, pollMs]) => this.#dueAt(lane, pollMs) <= now + EARLY_TIMER_MS)
        .map(([lane]) => lane),
    )
  }

  /** @param chance From 0 to 1. Intervals vary by a tenth, so that workers do not poll in step. */
  looked(lanes: Iterable<string>, now: number, chance: number): void {
    for (const lane of lanes) this.#looks.set(lane, { at: now, jitter: 0.9 + 0.2 * chance })
  }

  #dueAt(lane: string, pollMs: number): number {
    const look = this.#looks.get(lane)
    return look === undefined ? Number.NEGATIVE_INFINITY : look.at + pollMs * look.jitter
  }
}
