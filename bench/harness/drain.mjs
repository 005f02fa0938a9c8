import { now } from './clock.mjs'

/** What a drain tells, for the scenarios that show all of it. */
export const DRAIN_METRICS = [
  { name: 'jobsPerSecond', label: 'jobs/s', better: 'higher' },
  { name: 'serverUs', label: 'server CPU, us/job', unit: 'us', better: 'lower' },
  { name: 'walBytes', label: 'WAL, bytes/job', unit: 'bytes', better: 'lower' },
]

/**
 * Drains a backlog with real worker processes and tells how fast.
 *
 * The clock runs from the first line of the first handler to the moment when no job is left without a
 * committed outcome, so starting processes and connecting is not counted and batched completion is.
 * Jobs are counted by the handlers themselves.
 *
 * @param {{ jobMs?: number | { upTo: number }, laneCount?: number, n: number, processes: number, slots: number, limit?: number | null, lanes?: number,
 *   prefetch?: number, held?: boolean, waiting?: boolean, mixed?: boolean }} params `waiting`: the backlog is in the database already.
 * @param {() => Promise<object>} prepareWorkers Further options that workers are opened with, made once the schema is there.
 */
export async function drain(measurement, params, prepareWorkers = async () => ({})) {
  const { n, processes, slots, limit = null, prefetch, lanes = 1, held = false, waiting = false } = params
  const { mixed = false, jobMs = 0, laneCount } = params
  const options = { limit, prefetch, mixed, workflows: mixed, laneCount }
  const system = await measurement.open(options)
  await system.setup()
  if (mixed) await system.enqueueMixed(n)
  else if (!waiting) await system.bulkEnqueue(n, { lanes })
  await measurement.checkpoint()
  if (held) await measurement.holdTransaction()

  const agents = await measurement.startAgents(processes, 'worker', {
    ...options,
    ...(await prepareWorkers()),
  })
  const figures = await measurement.costing(n, async () => {
    const toldAt = now()
    await agents.askAll('work', { slots, lanes, jobMs })
    await agents.untilFinished(n)
    await measurement.untilDurable(system)
    const endedAt = now()
    return {
      jobsPerSecond: (n / (endedAt - agents.firstAt)) * 1000,
      startUpMs: agents.firstAt - toldAt,
      ranTwice: agents.finished - n,
    }
  })
  return { agents, figures }
}
