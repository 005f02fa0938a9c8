import type { SimModel, Workload } from './workload.ts'

/**
 * A time by which no policy can have finished, in milliseconds from the start.
 *
 * The largest of: the last job runs when it comes; all work and one load of each model, spread over the devices without
 * a gap; and for each job the work of it and of all that come later, from its arrival on. A copy takes its part of a
 * device; where nothing else fits beside it, that is all of it.
 */
export function lowerBound({ devices, models, arrivals }: Workload): number {
  if (arrivals.length === 0) return 0
  const parts = models.map((model) =>
    leastPart(
      model,
      models,
      devices.map(({ memory }) => memory),
    ),
  )
  const used = new Set(arrivals.map(({ model }) => model))
  const loading = [...used].reduce((sum, model) => sum + models[model]!.loadMs * parts[model]!, 0)
  let later = 0
  let bound = 0
  for (let index = arrivals.length - 1; index >= 0; index--) {
    const { at, model, runMs } = arrivals[index]!
    later += (runMs * parts[model]!) / models[model]!.parallel
    bound = Math.max(bound, at + runMs, at + later / devices.length)
  }
  const first = arrivals[0]!.at
  return Math.max(bound, first + (later + loading) / devices.length, first + shortest(models, used))
}

function shortest(models: readonly SimModel[], used: ReadonlySet<number>): number {
  return Math.min(...[...used].map((model) => models[model]!.loadMs))
}

/** Of all its devices, as a share of one. */
function leastPart(model: SimModel, models: readonly SimModel[], memories: readonly number[]): number {
  const smallest = Math.min(...models.map(({ memory }) => memory))
  const parts = memories
    .filter((memory) => model.memory <= memory)
    .map((memory) => (memory - model.memory < smallest ? 1 : model.memory / memory))
  return model.devices * Math.min(1, ...parts)
}
