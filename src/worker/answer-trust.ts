import { DOUBTFUL_HEARTBEATS } from '../model/limits.ts'
import type { JobSource } from './job-source.ts'

/** Which answers and connections a worker can still trust, by the heartbeats that got through. */
export class AnswerTrust {
  readonly #source: Pick<JobSource, 'heartbeatMs' | 'silentMs' | 'staleByLane' | 'renew'>
  /** Heartbeats were missed: an answer that was on its way meanwhile is too old. */
  #missedBeats = false
  /** Since when connections may be dead: nothing had come back for a while by then. */
  #distrustsSince: number | undefined

  constructor(source: Pick<JobSource, 'heartbeatMs' | 'silentMs' | 'staleByLane' | 'renew'>) {
    this.#source = source
  }

  get #doubtfulMs(): number {
    return DOUBTFUL_HEARTBEATS * this.#source.heartbeatMs
  }

  /** A heartbeat got through. */
  noteBeat(): void {
    // A request that was sent before might wait for the rest of its time limit: it fails now, and is sent again.
    if (this.#distrustsSince !== undefined) this.#source.renew(this.#distrustsSince)
    this.#distrustsSince = undefined
    this.#missedBeats = false
  }

  /** @returns the lanes whose leases end within a heartbeat: then another worker may take their jobs. */
  noteSilence(silentMs: number, unansweredMs: number): ReadonlySet<string> {
    const { heartbeatMs, staleByLane } = this.#source
    if (silentMs > this.#doubtfulMs) this.#missedBeats = true
    if (unansweredMs > this.#doubtfulMs) this.#distrustsSince ??= performance.now()
    const ending = new Set<string>()
    for (const [lane, staleMs] of staleByLane) if (silentMs >= staleMs - heartbeatMs) ending.add(lane)
    return ending
  }

  /** Whether what was given to this worker so long ago may have been taken from it since. `isInDoubt`: a heartbeat or a cycle has said so. */
  isTooOld(ageMs: number, isInDoubt: boolean): boolean {
    // A process that stood still may read an answer before it hears what became of its heartbeats.
    return (
      ageMs > this.#doubtfulMs && (this.#missedBeats || isInDoubt || this.#source.silentMs > this.#doubtfulMs)
    )
  }
}
