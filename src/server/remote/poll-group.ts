import { PollSchedule } from '../../engine/dispatch/poll-schedule.ts'
import { LOOK_AGAIN_MS } from '../../model/limits.ts'
import type { IdlePoll } from './idle-poll.ts'

/** How many of them ask the database at once while there is work for them. */
const WIDTH = 4
/** From one look for those that have come to the next. */
const ARRIVALS_MS = 20

/**
 * Idle workers that can run the same jobs. They look in the order in which workers are filled, and only while there is more to
 * find. With other servers there are others who may come first: whose turn it is decides the database.
 */
export class PollGroup {
  readonly #polls = new Set<IdlePoll>()
  #sweeping: Promise<void> | undefined
  #again = false
  #lookAgain = LOOK_AGAIN_MS.length
  #timer: NodeJS.Timeout | undefined
  #stopped = false
  #lookedForArrivals = Number.NEGATIVE_INFINITY
  #arrivals: NodeJS.Timeout | undefined
  /** Those that have come and were not looked for yet. */
  readonly #arrived = new Set<IdlePoll>()
  /** Only for those the next round is; the others have found nothing and have no hint. */
  #narrow = false
  readonly #schedule = new PollSchedule()
  /** The next round is a poll of lanes that are due. */
  #isPoll = false

  get size(): number {
    return this.#polls.size
  }

  add(poll: IdlePoll): void {
    this.#stopped = false
    this.#polls.add(poll)
    if (this.#timer === undefined && this.#sweeping === undefined) this.#rest()
  }

  remove(poll: IdlePoll): void {
    this.#polls.delete(poll)
    this.#arrived.delete(poll)
  }

  stop(): void {
    this.#stopped = true
    clearTimeout(this.#arrivals)
    this.#arrivals = undefined
    clearTimeout(this.#timer)
    this.#timer = undefined
  }

  /** Somebody has come and has not looked. All that come within a moment are looked for together. */
  arrive(poll: IdlePoll): void {
    this.#arrived.add(poll)
    if (this.#arrivals !== undefined) return
    const look = () => {
      this.#arrivals = undefined
      this.#lookedForArrivals = performance.now()
      // What was asked for meanwhile for all counts for these too.
      if (!this.#again) this.#narrow = true
      this.#isPoll = false
      this.#look()
    }
    const waitMs = this.#lookedForArrivals + ARRIVALS_MS - performance.now()
    if (waitMs > 0) this.#arrivals = setTimeout(look, waitMs)
    else look()
  }

  /**
   * @param again Others may follow within milliseconds.
   * @param poll Nothing has happened: only lanes that are due are looked at.
   */
  look(again: boolean, poll = false): void {
    if (again) this.#lookAgain = 0
    this.#narrow = false
    this.#isPoll = poll
    this.#look()
  }

  #look(): void {
    this.#again = true
    this.#sweeping ??= this.#sweepUntilDone().finally(() => {
      this.#sweeping = undefined
      if (this.#again && !this.#stopped) this.look(false)
      else this.#rest()
    })
  }

  async #sweepUntilDone(): Promise<void> {
    clearTimeout(this.#timer)
    this.#timer = undefined
    while (this.#again && !this.#stopped) {
      this.#again = false
      await this.#sweep()
    }
  }

  async #sweep(): Promise<void> {
    const narrow = this.#narrow
    const lanes = this.#takeLanes(narrow)
    const hungry = [...(narrow ? this.#arrived : this.#polls)]
      .filter((poll) => poll.hungry && !poll.over)
      .sort(({ worker: a }, { worker: b }) => a.rank - b.rank || compareIds(a.id, b.id))
    this.#arrived.clear()
    let exhausted = false
    const lookInTurn = async () => {
      for (let poll = hungry.shift(); poll !== undefined && !exhausted; poll = hungry.shift()) {
        const { speaksForOthers } = poll
        const looked = await poll.look(lanes)
        if (looked === 'found') this.#lookAgain = 0
        if (looked === 'found' && narrow) {
          // There is work: the next round is wide.
          this.look(true)
          return
        }
        if (looked === 'nothing' && speaksForOthers) exhausted = true
      }
    }
    await Promise.all(Array.from({ length: Math.min(narrow ? 1 : WIDTH, hungry.length) }, lookInTurn))
  }

  /** The lanes that this round is for. All, unless it is a poll. */
  #takeLanes(narrow: boolean): ReadonlySet<string> | undefined {
    const now = performance.now()
    const polls = pollsOf([...this.#polls].map(({ worker }) => worker))
    const lanes = this.#isPoll ? this.#schedule.due(polls, now) : undefined
    this.#isPoll = false
    // Of those that have just come, the looks say nothing about the others.
    if (!narrow) this.#schedule.looked(lanes ?? polls.keys(), now, Math.random())
    return lanes
  }

  /** Sets the timer that looks without a hint. */
  #rest(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    const workers = [...this.#polls].filter((poll) => poll.hungry).map((poll) => poll.worker)
    if (this.#stopped || workers.length === 0) return
    let wait = Number.POSITIVE_INFINITY
    for (const { session } of workers) wait = Math.min(wait, session.claiming.lookAgainMs)
    wait *= 0.9 + 0.2 * Math.random()
    if (this.#lookAgain < LOOK_AGAIN_MS.length) wait = Math.min(wait, LOOK_AGAIN_MS[this.#lookAgain++]!)
    const poll = this.#schedule.nextMs(pollsOf(workers), performance.now())
    this.#timer = setTimeout(
      () => {
        this.look(false, poll <= wait)
      },
      Math.min(poll, wait),
    )
  }
}

/** The shortest poll of each lane. Workers that are alike serve the same ones, but may have read them at different times. */
function pollsOf(workers: readonly IdlePoll['worker'][]): ReadonlyMap<string, number> {
  const polls = new Map<string, number>()
  for (const worker of workers)
    for (const [lane, pollMs] of worker.session.offer.polls)
      polls.set(lane, Math.min(pollMs, polls.get(lane) ?? Number.POSITIVE_INFINITY))
  return polls
}

/** Of two ids, whole numbers as text, which worker came first. */
function compareIds(a: string, b: string): number {
  return a.length - b.length || (a < b ? -1 : a > b ? 1 : 0)
}
