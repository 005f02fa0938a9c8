import type { LaneOverflow, OpenRequest, PoolSituation } from '../model/pool-situation.ts'

export type FleetDecision = { readonly reason: string } & (
  | { readonly action: 'nothing' }
  /** Tell workers that are leaving to stay. */
  | { readonly action: 'bring-back'; readonly count: number }
  | { readonly action: 'start'; readonly count: number }
  /** Whoever called the provisioner is gone: call it again with the same token. */
  | { readonly action: 'call-again' }
  | { readonly action: 'close'; readonly outcome: RequestOutcome }
)

/** arrived: at least one came. expired: none came in time. failed: the provisioner started none. */
export type RequestOutcome = 'arrived' | 'expired' | 'failed'

/** A provisioner that fails again and again is asked this often at least. */
const MAX_BACKOFF_MS = 600_000
/** Doubling nothing stays nothing. */
const MIN_BACKOFF_MS = 1000

/**
 * What a pool does next.
 *
 * One request at a time: while one is open, nothing is started. A worker that is leaving is brought back before another is
 * started. Never are there more workers than `max`, those that leave included: they are paid for until they are gone.
 */
export function decide(pool: PoolSituation): FleetDecision {
  if (pool.request !== null) return decideOpenRequest(pool.request)
  const { jobs, waitedMs, reason } = sum(pool)
  const missing = Math.max(0, pool.min - pool.taking)
  const needed = Math.max(jobs === 0 ? 0 : workersFor(pool, jobs), missing)
  if (needed === 0) return { action: 'nothing', reason: 'there is capacity for everything that waits' }

  const why =
    jobs === 0
      ? `${workers(pool.taking)} of at least ${pool.min}`
      : `${countOf(jobs, 'job')} waited up to ${seconds(waitedMs)}: ${reason}`
  // Costs nothing and takes a moment: neither a cool-down nor a failing provisioner stands in the way.
  const back = Math.min(needed, pool.returnable, Math.max(0, pool.max - pool.taking))
  if (back > 0) return { action: 'bring-back', count: back, reason: why }

  const room = pool.max - pool.taking - pool.leaving
  if (room <= 0)
    return { action: 'nothing', reason: `${why}; the pool has its ${pool.max} workers${leavingWords(pool)}` }
  const wait = waitOf(pool)
  if (wait > 0) {
    const cause =
      pool.failures === 0
        ? 'cool-down'
        : `back-off after ${countOf(pool.failures, 'request')} without a worker`
    return { action: 'nothing', reason: `${why}; ${cause} for another ${seconds(wait)}` }
  }
  return { action: 'start', count: Math.min(needed, room), reason: why }
}

/** How long nothing may be started yet. */
export function waitOf(pool: Pick<PoolSituation, 'cooldownMs' | 'failures' | 'sinceLastMs'>): number {
  if (pool.sinceLastMs === null) return 0
  const pause =
    pool.failures === 0
      ? pool.cooldownMs
      : // Beyond 2^20 the limit is reached in any case, and numbers stay finite.
        Math.min(
          MAX_BACKOFF_MS,
          Math.max(pool.cooldownMs, MIN_BACKOFF_MS) * 2 ** Math.min(20, pool.failures - 1),
        )
  return Math.max(0, pause - pool.sinceLastMs)
}

function decideOpenRequest(request: OpenRequest): FleetDecision {
  const { wanted, started, arrived, gone } = request
  const came = `${arrived} of ${wanted} came`
  if (arrived >= (started ?? wanted)) {
    // A call that nobody has noted the answer of may have started all of them.
    if (started === 0)
      return { action: 'close', outcome: 'failed', reason: 'the provisioner started no worker' }
    return { action: 'close', outcome: 'arrived', reason: came }
  }
  if (started !== null && arrived + gone >= started) {
    const outcome = arrived > 0 ? 'arrived' : 'expired'
    return { action: 'close', outcome, reason: `${came}; ${gone} ended before they came` }
  }
  if (request.overdue) {
    if (arrived > 0) return { action: 'close', outcome: 'arrived', reason: `${came} in time` }
    const outcome = started === null ? 'failed' : 'expired'
    return { action: 'close', outcome, reason: started === null ? 'no answer in time' : 'none came in time' }
  }
  if (started === null && request.abandoned)
    return { action: 'call-again', reason: 'whoever called the provisioner is gone' }
  return { action: 'nothing', reason: `a request is open: ${came}` }
}

/** By the capacity of a worker over all lanes, and by what each lane lets one worker run. */
function workersFor(pool: PoolSituation, jobs: number): number {
  const byCapacity = pool.capacity === 0 ? 1 : Math.ceil(jobs / pool.capacity)
  const byLane = pool.overflow.map(({ jobs: inLane, perWorker }) =>
    perWorker === null || perWorker === 0 ? 0 : Math.ceil(Math.min(inLane, jobs) / perWorker),
  )
  return Math.max(byCapacity, ...byLane)
}

function sum({ overflow, expected }: PoolSituation): { jobs: number; waitedMs: number; reason: string } {
  const jobs = overflow.reduce((all, lane) => all + lane.jobs, 0)
  const most = overflow.reduce<LaneOverflow | undefined>(
    (first, lane) => (first === undefined || lane.jobs > first.jobs ? lane : first),
    undefined,
  )
  const waitedMs = Math.max(0, ...overflow.map((lane) => lane.waitedMs))
  return { jobs: Math.max(0, jobs - expected), waitedMs, reason: most?.reason ?? '' }
}

function leavingWords({ leaving }: PoolSituation): string {
  return leaving === 0 ? '' : `, ${leaving} of them leaving`
}

function workers(number: number): string {
  return countOf(number, 'worker')
}

function countOf(number: number, thing: string): string {
  return `${number} ${thing}${number === 1 ? '' : 's'}`
}

function seconds(ms: number): string {
  return ms < 10_000 ? `${(ms / 1000).toFixed(1)} s` : `${Math.round(ms / 1000)} s`
}
