import { decide } from '../decide.ts'
import { DAY_TRACE } from './day-trace.ts'

/** How a pool is run for a day in virtual time. */
export interface DayOptions {
  /** A worker without a job for so long leaves. */
  readonly idleMs: number
  /** Who of several free workers gets a job: the first of them in order, or each in turn. */
  readonly order: 'fill' | 'round-robin'
  readonly max: number
  readonly cooldownMs: number
  /** From a request to the worker that takes jobs: what a container takes. */
  readonly startMs: number
  /** Of one job, on average. */
  readonly jobMs: number
  /** Only every so many jobs of the day; 1: all of them. */
  readonly every: number
}

export interface DayResult {
  /** Paid for: from the request for a worker to its end. */
  readonly workerHours: number
  /** Hours that jobs ran: nobody can do with less. */
  readonly jobHours: number
  readonly meanWaitMs: number
  readonly p95WaitMs: number
  /** Workers started. */
  readonly started: number
}

interface SimWorker {
  readonly askedAt: number
  readonly comesAt: number
  busyUntil: number
  idleSince: number
}

const STEP_MS = 250
const TICK_MS = 1500
const MOMENT_MS = 1000
const DAY_MS = 86_400_000

/**
 * Plays the day of `DAY_TRACE` with the decision that servers make. Workers have one slot; what becomes idle leaves by the idle
 * rule. After midnight no more jobs come, and it ends when the last worker has left.
 */
export function playDay(options: DayOptions): DayResult {
  const jobs = arrivals(options.jobMs).filter((_, index) => index % options.every === 0)
  const waits: number[] = []
  let workers: SimWorker[] = []
  let paidMs = 0
  let started = 0
  let turn = 0
  let next = 0
  let head = 0
  let endedAt: number | null = null
  for (let now = 0; now < DAY_MS || head < jobs.length || workers.length > 0; now += STEP_MS) {
    while (next < jobs.length && jobs[next]!.at <= now) next++
    for (; head < next; head++) {
      const chosen = choose(workers, now, options.order, turn)
      if (chosen < 0) break
      turn = chosen + 1
      const { at, ms } = jobs[head]!
      waits.push(now - at)
      const worker = workers[chosen]!
      worker.busyUntil = now + ms
      worker.idleSince = now + ms
    }
    const staying = workers.filter((worker) => now - worker.idleSince < options.idleMs)
    for (const worker of workers) if (!staying.includes(worker)) paidMs += now - worker.askedAt
    workers = staying
    if (now % TICK_MS !== 0) continue
    const coming = workers.some((worker) => worker.comesAt > now)
    if (coming) {
      endedAt = null
      continue
    }
    endedAt ??= workers.length > 0 ? now : endedAt
    let late = head
    while (late < next && now - jobs[late]!.at > MOMENT_MS) late++
    const waiting = late - head
    if (waiting === 0) continue
    const overflow = [
      { lane: 'a', jobs: waiting, waitedMs: now - jobs[head]!.at, perWorker: null, reason: '' },
    ]
    const decision = decide({
      min: 0,
      max: options.max,
      capacity: 1,
      cooldownMs: options.cooldownMs,
      taking: workers.length,
      leaving: 0,
      returnable: 0,
      overflow,
      expected: 0,
      request: null,
      failures: 0,
      sinceLastMs: endedAt === null ? null : now - endedAt,
    })
    if (decision.action !== 'start') continue
    for (let count = 0; count < decision.count; count++) {
      const comesAt = now + options.startMs
      workers.push({ askedAt: now, comesAt, busyUntil: comesAt, idleSince: comesAt })
    }
    started += decision.count
    endedAt = null
  }
  const sorted = [...waits].sort((a, b) => a - b)
  return {
    workerHours: paidMs / 3_600_000,
    jobHours: jobs.reduce((sum, { ms }) => sum + ms, 0) / 3_600_000,
    meanWaitMs: waits.reduce((sum, wait) => sum + wait, 0) / waits.length,
    p95WaitMs: sorted[Math.floor(sorted.length * 0.95)]!,
    started,
  }
}

/** The place of the worker that gets the next job; -1 when none is free. */
function choose(
  workers: readonly SimWorker[],
  now: number,
  order: DayOptions['order'],
  turn: number,
): number {
  const isFree = ({ busyUntil }: SimWorker) => busyUntil <= now
  if (order === 'fill') return workers.findIndex(isFree)
  for (let step = 0; step < workers.length; step++) {
    const at = (turn + step) % workers.length
    if (isFree(workers[at]!)) return at
  }
  return -1
}

/** When each job comes and how long it runs: spread over its minute, lengths from a tenth of the mean to many times it. */
function arrivals(jobMs: number): { readonly at: number; readonly ms: number }[] {
  const counts = DAY_TRACE.flatMap((hour) => hour.split(' ').map(Number))
  let state = 1
  const chance = () => {
    // A linear congruence is enough here, and the same everywhere.
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return state / 4_294_967_296
  }
  return counts.flatMap((count, minute) =>
    Array.from({ length: count }, () => ({
      at: minute * 60_000 + chance() * 60_000,
      ms: Math.max(jobMs / 10, -Math.log(1 - chance()) * jobMs),
    })).sort((a, b) => a.at - b.at),
  )
}
