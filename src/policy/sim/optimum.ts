import type { Workload } from './workload.ts'

export interface Optimum {
  readonly makespanMs: number
  /** The fewest with which that makespan can be reached. */
  readonly loads: number
}

/** Above it the search would take more than about a second. */
const MAX_STATES = 200_000

/**
 * The best that could be done by somebody who knows what will come: exact, by going through all orders.
 *
 * For one device on which the models do not fit side by side, one job at a time, first come first served within a
 * model. `undefined` for anything else, and when there are too many jobs.
 */
export function findOptimum(workload: Workload): Optimum | undefined {
  if (!isSimple(workload)) return undefined
  const queues = workload.models.map((_, model) => workload.arrivals.filter((job) => job.model === model))
  const sizes = queues.map(({ length }) => length + 1)
  const states = sizes.reduce((product, size) => product * size, 1)
  if (states * queues.length > MAX_STATES) return undefined
  // fronts[served so far][model loaded]: pairs of time and loads of which none is worse in both.
  const fronts: Pair[][][] = Array.from({ length: states }, () => queues.map(() => []))
  const steps = stepsOf(sizes)
  let best: Pair = [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY]
  for (let state = 0; state < states; state++) {
    for (let next = 0; next < queues.length; next++) {
      const served = Math.floor(state / steps[next]!) % sizes[next]!
      const job = queues[next]![served]
      if (job === undefined) continue
      const { loadMs } = workload.models[next]!
      const target = fronts[state + steps[next]!]![next]!
      // Loading may begin before the job comes.
      if (state === 0) add(target, [Math.max(loadMs, job.at) + job.runMs, 1])
      fronts[state]!.forEach((front, last) => {
        for (const [at, loads] of front) {
          const swap = last === next ? 0 : 1
          add(target, [Math.max(at + swap * loadMs, job.at) + job.runMs, loads + swap])
        }
      })
    }
    if (state === states - 1) for (const pair of fronts[state]!.flat()) if (isBefore(pair, best)) best = pair
  }
  return { makespanMs: best[0], loads: best[1] }
}

type Pair = readonly [at: number, loads: number]

function isSimple({ devices, models, losses, capacity, arrivals, unloadMs }: Workload): boolean {
  const [device] = devices
  if (device === undefined || devices.length > 1 || losses.length > 0 || capacity < 1 || unloadMs > 0)
    return false
  if (arrivals.length === 0 || new Set(arrivals.map(({ priority }) => priority)).size > 1) return false
  const memories = models.map(({ memory }) => memory).sort((one, other) => one - other)
  const alone = memories.length < 2 || memories[0]! + memories[1]! > device.memory
  return alone && models.every(({ parallel, devices }) => parallel === 1 && devices === 1)
}

function stepsOf(sizes: readonly number[]): number[] {
  let step = 1
  return sizes.map((size) => {
    const mine = step
    step *= size
    return mine
  })
}

function add(front: Pair[], pair: Pair): void {
  if (front.some(([at, loads]) => at <= pair[0] && loads <= pair[1])) return
  for (let index = front.length - 1; index >= 0; index--)
    if (front[index]![0] >= pair[0] && front[index]![1] >= pair[1]) front.splice(index, 1)
  front.push(pair)
}

function isBefore(one: Pair, other: Pair): boolean {
  return one[0] < other[0] || (one[0] === other[0] && one[1] < other[1])
}
