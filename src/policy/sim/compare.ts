import { type Description, generate } from './generate.ts'
import { type Measures, mean, measure } from './measure.ts'
import { findOptimum, type Optimum } from './optimum.ts'
import { POLICIES, type PolicyName } from './policies/by-name.ts'
import { type Course, simulate } from './simulate.ts'
import type { Workload } from './workload.ts'

export interface Row {
  readonly policy: PolicyName
  /** Means over the seeds; `overcommits`, `livelock`, `outOfMemory` and `unserved` are sums. */
  readonly measures: Measures
  /** The longest wait of all seeds. */
  readonly worstWait: number
}

export interface Comparison {
  readonly seeds: number
  readonly firstSeed: number
  readonly rows: readonly Row[]
  /** Of the first seed, where it can be found. */
  readonly optimum: Optimum | undefined
  /** Of the first seed. */
  readonly workload: Workload
  readonly courses: ReadonlyMap<PolicyName, Course>
}

export interface Trial {
  readonly seeds: number
  readonly firstSeed: number
  readonly policies: readonly PolicyName[]
}

/** Plays the same workloads under each policy. */
export function compare(description: Description, { seeds, firstSeed, policies }: Trial): Comparison {
  const first = generate(description, firstSeed)
  const courses = new Map<PolicyName, Course>()
  const all = new Map<PolicyName, Measures[]>(policies.map((policy) => [policy, []]))
  for (let seed = firstSeed; seed < firstSeed + seeds; seed++) {
    const workload = seed === firstSeed ? first : generate(description, seed)
    for (const policy of policies) {
      const course = simulate(workload, POLICIES[policy].make(description.rules))
      if (seed === firstSeed) courses.set(policy, course)
      all.get(policy)!.push(measure(workload, course))
    }
  }
  const rows = policies.map((policy) => {
    const list = all.get(policy)!
    return { policy, measures: mean(list), worstWait: Math.max(...list.map(({ waitMax }) => waitMax)) }
  })
  return { seeds, firstSeed, rows, optimum: findOptimum(first), workload: first, courses }
}
