import { now } from './clock.mjs'

/**
 * Runs workflows in one process, which also starts them, and tells how long they took.
 *
 * The clock runs from before the first of them is started to the moment when none is left without a
 * committed end. `warmUp` of the same shape run before it. Steps are counted by the handlers themselves.
 *
 * @param {{ shape: string, n: number, jobs: number, slots: number, limit?: number | null,
 *   warmUp: { n: number, jobs: number } }} params `jobs`: how many steps run in all.
 */
export async function timeWorkflows(measurement, { shape, n, jobs, slots, limit = null, warmUp }) {
  const system = await measurement.open({ limit, workflows: true })
  await system.setup()
  const agents = await measurement.startAgents(1, 'worker', { limit, workflows: true })
  await agents.askAll('work', { slots, lanes: 1, jobMs: 0 })
  await agents.askAll('startWorkflows', { shape, n: warmUp.n })
  await agents.untilFinished(warmUp.jobs)
  await measurement.untilDurable(system)
  await measurement.checkpoint()

  const startedAt = now()
  await agents.askAll('startWorkflows', { shape, n })
  await agents.untilFinished(warmUp.jobs + jobs)
  await measurement.untilDurable(system)
  const seconds = (now() - startedAt) / 1000
  await allCompleted(system)
  return { seconds, ranTwice: agents.finished - warmUp.jobs - jobs }
}

/** A workflow that failed took less time than one that was done. */
export async function allCompleted(system) {
  const others = await system.notCompleted()
  if (others > 0) throw new Error(`${others} jobs or workflows did not complete`)
}
