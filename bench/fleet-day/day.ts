import { decide } from '../../src/fleet/decide.ts'
import { OFFICE_TRACE, QUIET_TRACE, SPIKY_TRACE } from './day-trace.ts'

export interface SimJob {
  readonly at: number
  readonly ms: number
}

/** A day of jobs, and what they run on. */
export interface Day {
  readonly name: string
  readonly jobs: readonly SimJob[]
  /** Workers at most. */
  readonly max: number
  /** From a request to a worker that takes jobs, on average: single ones take from half of it to twice as long. */
  readonly startMs: number
}

/** How a pool is run. */
export interface FleetPlan {
  /** A worker without a job for so long leaves. */
  readonly idleMs: number
  /** Who of several free workers gets a job: the first of them in order, or each in turn. */
  readonly order: 'fill' | 'round-robin'
  /**
   * `overflow`: as servers decide, with all that makes them slower: they look now and then, ask once at a time, and rest
   * in between; workers leave with a heartbeat. `at once`: for each job that finds nobody a worker is asked for in the same
   * instant, unless enough are on their way, and workers leave to the millisecond. No system can be that quick.
   */
  readonly start: 'overflow' | 'at once'
  readonly cooldownMs: number
}

export interface DayResult {
  /** Paid for: from the request for a worker to its end. */
  readonly workerHours: number
  readonly meanWaitMs: number
  readonly p95WaitMs: number
  /** Workers started. */
  readonly started: number
}

interface SimWorker {
  readonly askedAt: number
  readonly comesAt: number
  /** Also while it comes. */
  busyUntil: number
}

/** How often servers look, how long a job waits before it counts as overflow, and how often a worker asks whether to leave. */
const TICK_MS = 1500
const MOMENT_MS = 1000
const HEARTBEAT_MS = 5000
const HOUR_MS = 3_600_000

/** Days on which plans are compared: much short work, little long work, and peaks of short jobs. */
export const DAYS: readonly Day[] = [
  { name: 'office', jobs: draw(OFFICE_TRACE, 20_000), max: 60, startMs: 30_000 },
  { name: 'quiet', jobs: draw(QUIET_TRACE, 120_000), max: 60, startMs: 30_000 },
  { name: 'spiky', jobs: draw(SPIKY_TRACE, 10_000), max: 60, startMs: 30_000 },
]

/** Hours that jobs ran: nobody can do with less. */
export function jobHours({ jobs }: Day): number {
  return jobs.reduce((sum, { ms }) => sum + ms, 0) / HOUR_MS
}

/** Plays a day in virtual time. Workers have one slot. It ends when the last worker has left. */
export function playDay(day: Day, plan: FleetPlan): DayResult {
  return new Playing(day, plan).play()
}

class Playing {
  readonly #day: Day
  readonly #plan: FleetPlan
  readonly #chance = generator(2)
  readonly #waits: number[] = []
  /** In the order in which they were asked for, which is the one they are filled in. */
  #workers: SimWorker[] = []
  #head = 0
  #next = 0
  #turn = 0
  #paidMs = 0
  #started = 0
  /** When the last request was seen to have ended; -1: there was none. */
  #requestEndsAt = -1

  constructor(day: Day, plan: FleetPlan) {
    this.#day = day
    this.#plan = plan
  }

  play(): DayResult {
    const { jobs } = this.#day
    for (let now = this.#nextAt(0); now !== undefined; now = this.#nextAt(now)) {
      this.#leave(now)
      while (this.#next < jobs.length && jobs[this.#next]!.at <= now) this.#next++
      this.#dispatch(now)
      this.#startMore(now)
    }
    this.#leave(Number.POSITIVE_INFINITY)
    const sorted = this.#waits.sort((a, b) => a - b)
    return {
      workerHours: this.#paidMs / HOUR_MS,
      meanWaitMs: sorted.reduce((sum, wait) => sum + wait, 0) / sorted.length,
      p95WaitMs: sorted[Math.floor(sorted.length * 0.95)]!,
      started: this.#started,
    }
  }

  /** When something happens next. While nobody waits only a job makes a difference: who has left is seen then. */
  #nextAt(now: number): number | undefined {
    const { jobs } = this.#day
    const arrival = jobs[this.#next]?.at
    if (this.#head === this.#next) return arrival
    let first = arrival ?? Number.POSITIVE_INFINITY
    for (const { busyUntil } of this.#workers) if (busyUntil > now && busyUntil < first) first = busyUntil
    return this.#plan.start === 'overflow' ? Math.min(first, nextMultiple(now, TICK_MS)) : first
  }

  #leave(now: number): void {
    const { idleMs, start } = this.#plan
    this.#workers = this.#workers.filter((worker) => {
      const since = worker.busyUntil + idleMs - worker.comesAt
      const beats = start === 'overflow' ? Math.ceil(since / HEARTBEAT_MS) * HEARTBEAT_MS : since
      const leavesAt = worker.comesAt + beats
      if (leavesAt > now) return true
      this.#paidMs += leavesAt - worker.askedAt
      return false
    })
  }

  #dispatch(now: number): void {
    for (; this.#head < this.#next; this.#head++) {
      const chosen = this.#choose(now)
      if (chosen < 0) return
      this.#turn = chosen + 1
      const { at, ms } = this.#day.jobs[this.#head]!
      this.#waits.push(now - at)
      this.#workers[chosen]!.busyUntil = now + ms
    }
  }

  /** The place of the worker that gets the next job; -1 when none is free. */
  #choose(now: number): number {
    const workers = this.#workers
    const from = this.#plan.order === 'fill' ? 0 : this.#turn
    for (let step = 0; step < workers.length; step++) {
      const at = (from + step) % workers.length
      if (workers[at]!.busyUntil <= now) return at
    }
    return -1
  }

  #startMore(now: number): void {
    const { jobs, max } = this.#day
    if (this.#plan.start === 'at once') {
      const coming = this.#workers.filter(({ comesAt }) => comesAt > now).length
      this.#add(now, Math.min(this.#next - this.#head - coming, max - this.#workers.length))
      return
    }
    if (now % TICK_MS !== 0 || now < this.#requestEndsAt) return
    let late = this.#head
    while (late < this.#next && now - jobs[late]!.at > MOMENT_MS) late++
    if (late === this.#head) return
    const decision = decide({
      min: 0,
      max,
      capacity: 1,
      cooldownMs: this.#plan.cooldownMs,
      taking: this.#workers.length,
      leaving: 0,
      returnable: 0,
      overflow: [
        {
          lane: 'a',
          jobs: late - this.#head,
          waitedMs: now - jobs[this.#head]!.at,
          perWorker: null,
          reason: '',
        },
      ],
      expected: 0,
      request: null,
      failures: 0,
      sinceLastMs: this.#requestEndsAt < 0 ? null : now - this.#requestEndsAt,
    })
    if (decision.action !== 'start') return
    this.#requestEndsAt = nextMultiple(this.#add(now, decision.count), TICK_MS)
  }

  /** @returns When the last of them comes. */
  #add(now: number, count: number): number {
    let last = now
    for (let n = 0; n < count; n++) {
      const comesAt = now + this.#day.startMs * 2 ** (2 * this.#chance() - 1)
      this.#workers.push({ askedAt: now, comesAt, busyUntil: comesAt })
      this.#started++
      last = Math.max(last, comesAt)
    }
    return last
  }
}

function nextMultiple(now: number, step: number): number {
  return (Math.floor(now / step) + 1) * step
}

/** When each job comes and how long it runs: spread over its minute, lengths from a tenth of the mean to many times it. */
function draw(trace: readonly string[], jobMs: number): readonly SimJob[] {
  const counts = trace.flatMap((hour) => hour.split(' ').map(Number))
  const chance = generator(1)
  return counts.flatMap((count, minute) =>
    Array.from({ length: count }, () => ({
      at: minute * 60_000 + chance() * 60_000,
      ms: Math.max(jobMs / 10, -Math.log(1 - chance()) * jobMs),
    })).sort((a, b) => a.at - b.at),
  )
}

/** A linear congruence is enough here, and the same everywhere. */
function generator(seed: number): () => number {
  let state = seed
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return state / 4_294_967_296
  }
}
