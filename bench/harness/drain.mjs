import { now } from './clock.mjs'

/**
 * Drains a backlog with real worker processes and tells how fast.
 *
 * The clock runs from the first line of the first handler to the moment when no job is left without a
 * committed outcome, so starting processes and connecting is not counted and batched completion is.
 * Jobs are counted by the handlers themselves.
 *
 * @param {{ n: number, processes: number, slots: number, limit?: number | null, lanes?: number,
 *   held?: boolean, waiting?: boolean }} params `waiting`: the backlog is in the database already.
 * @param {() => Promise<object>} prepareWorkers Further options that workers are opened with, made once the schema is there.
 */
export async function drain(measurement, params, prepareWorkers = async () => ({})) {
  const { n, processes, slots, limit = null, lanes = 1, held = false, waiting = false } = params
  const system = await measurement.open({ limit })
  await system.setup()
  if (!waiting) await system.bulkEnqueue(n, { lanes })
  await measurement.checkpoint()
  if (held) await measurement.holdTransaction()

  const agents = await measurement.startAgents(processes, 'worker', { limit, ...(await prepareWorkers()) })
  const toldAt = now()
  await agents.askAll('work', { slots, lanes, jobMs: 0 })
  await agents.untilFinished(n)
  await measurement.untilDurable(system)
  const endedAt = now()

  return {
    agents,
    figures: {
      jobsPerSecond: (n / (endedAt - agents.firstAt)) * 1000,
      startUpMs: agents.firstAt - toldAt,
      ranTwice: agents.finished - n,
    },
  }
}
