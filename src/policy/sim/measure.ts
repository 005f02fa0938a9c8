import { lowerBound } from './lower-bound.ts'
import type { Course } from './simulate.ts'
import type { Workload } from './workload.ts'

/** What counts of a course. Milliseconds. */
export interface Measures {
  readonly tasks: number
  readonly loads: number
  readonly loadsPerThousand: number
  readonly makespanMs: number
  /** Makespan in relation to the lower bound. */
  readonly stretch: number
  readonly waitMean: number
  readonly waitP50: number
  readonly waitP95: number
  readonly waitP99: number
  readonly waitMax: number
  /** Of the devices' time. */
  readonly loadingShare: number
  readonly overcommits: number
  readonly livelock: number
  readonly outOfMemory: number
  /** Jobs that did not end. */
  readonly unserved: number
}

export function measure(workload: Workload, course: Course): Measures {
  const { devices, models } = workload
  const waits: number[] = []
  let end = 0
  for (const { at, startedAt, endedAt } of course.jobs) {
    if (startedAt === null || endedAt === null) continue
    waits.push(startedAt - at)
    end = Math.max(end, endedAt)
  }
  waits.sort((one, other) => one - other)
  const tasks = course.jobs.length
  const first = course.jobs[0]?.at ?? 0
  const widths = new Map(models.map(({ name, devices }) => [name, devices]))
  const loading = course.loads.reduce((sum, { from, to, model }) => sum + (to - from) * widths.get(model)!, 0)
  return {
    tasks,
    loads: course.loads.length,
    loadsPerThousand: tasks === 0 ? 0 : (1000 * course.loads.length) / tasks,
    makespanMs: end - first,
    stretch: (end - first) / Math.max(1, lowerBound(workload) - first),
    waitMean: waits.reduce((sum, wait) => sum + wait, 0) / Math.max(1, waits.length),
    waitP50: quantile(waits, 0.5),
    waitP95: quantile(waits, 0.95),
    waitP99: quantile(waits, 0.99),
    waitMax: quantile(waits, 1),
    loadingShare: end > first ? loading / ((end - first) * devices.length) : 0,
    overcommits: course.overcommits,
    livelock: course.livelock ? 1 : 0,
    outOfMemory: course.outOfMemory,
    unserved: tasks - waits.length,
  }
}

/** Of sorted values; the smallest that at least this share does not exceed. */
export function quantile(sorted: readonly number[], share: number): number {
  if (sorted.length === 0) return 0
  return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)]!
}

const SUMS: ReadonlySet<keyof Measures> = new Set(['overcommits', 'livelock', 'outOfMemory', 'unserved'])

/** Of several courses; what should be 0 is added up. */
export function mean(list: readonly Measures[]): Measures {
  const keys = Object.keys(list[0]!) as (keyof Measures)[]
  const means = keys.map((key) => {
    const sum = list.reduce((total, measures) => total + measures[key], 0)
    return [key, SUMS.has(key) ? sum : sum / list.length]
  })
  return Object.fromEntries(means) as Measures
}
