import type { LaneOverflow, OpenRequest, PoolSituation } from '../model/pool-situation.ts'

export type FleetDecision = { readonly reason: string } & (
  | { readonly action: 'nothing' }
  /** Keep workers that are about to shut down. */
  | { readonly action: 'bring-back'; readonly count: number }
  | { readonly action: 'start'; readonly count: number }
  /** The process that called the provisioner has died: call it again with the same token. */
  | { readonly action: 'call-again' }
  | { readonly action: 'close'; readonly outcome: RequestOutcome }
)

/** arrived: at least one worker came. expired: none came in time. failed: the provisioner started none. */
export type RequestOutcome = 'arrived' | 'expired' | 'failed'

/** The longest back-off of a provisioner that keeps failing. */
const MAX_BACKOFF_MS = 600_000
/** The shortest back-off, because doubling zero has no effect. */
const MIN_BACKOFF_MS = 1000

/**
 * Decides what a pool does next.
 *
 * One request at a time: while one is open, nothing is started. A worker that is shutting down is kept before another
 * is started. There are never more workers than `max`, including those that are shutting down, because they cost money
 * until they end.
 */
export function decide(pool: PoolSituation): FleetDecision {
  if (pool.request !== null) return decideOpenRequest(pool.request)
  const { jobs, waitedMs, reason } = sum(pool)
  const missing = Math.max(0, pool.min - pool.taking)
  const needed = Math.max(jobs === 0 ? 0 : workersFor(pool, jobs), missing)
  if (needed === 0) return { action: 'nothing', reason: 'there is enough capacity for all waiting jobs' }

  const why =
    jobs === 0
      ? `${workers(pool.taking)} of at least ${pool.min}`
      : `${countOf(jobs, 'job')} waited up to ${seconds(waitedMs)}: ${reason}`
  // Keeping a worker costs nothing and takes effect at once, so neither a cooldown nor a failing provisioner prevents
  // it.
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

/** How long nothing may be started. */
export function waitOf(pool: Pick<PoolSituation, 'cooldownMs' | 'failures' | 'sinceLastMs'>): number {
  if (pool.sinceLastMs === null) return 0
  const pause =
    pool.failures === 0
      ? pool.cooldownMs
      : // Beyond 2^20, the limit is reached in any case, and numbers stay finite.
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
    // A call without a recorded response may have started all of them.
    if (started === 0)
      return { action: 'close', outcome: 'failed', reason: 'the provisioner started no worker' }
    return { action: 'close', outcome: 'arrived', reason: came }
  }
  if (started !== null && arrived + gone >= started) {
    const outcome = arrived > 0 ? 'arrived' : 'expired'
    return { action: 'close', outcome, reason: `${came}; ${gone} ended before they arrived` }
  }
  if (request.overdue) {
    if (arrived > 0) return { action: 'close', outcome: 'arrived', reason: `${came} in time` }
    const outcome = started === null ? 'failed' : 'expired'
    return {
      action: 'close',
      outcome,
      reason: started === null ? 'no response in time' : 'none arrived in time',
    }
  }
  if (started === null && request.abandoned)
    return { action: 'call-again', reason: 'the process that called the provisioner has died' }
  return { action: 'nothing', reason: `a request is open: ${came}` }
}

/** By the capacity of a worker over all lanes, and by each lane's limit per worker. */
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
