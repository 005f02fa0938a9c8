/** What a retry of many jobs puts in motion. */
export interface Reruns {
  /** Leaf jobs that run again. */
  readonly jobs: number
  /** Workflows that run again, by name. */
  readonly workflows: readonly RerunWorkflow[]
  /** Jobs left out because their workflow was cancelled on request. */
  readonly leftOut: number
}

export interface RerunWorkflow {
  readonly name: string
  /** Runs of the workflow that run again, each once. */
  readonly runs: number
  /** Leaf jobs of these runs that run again. */
  readonly jobs: number
}

export const NO_RERUNS: Reruns = { jobs: 0, workflows: [], leftOut: 0 }

/** Both together, the workflow with the most runs first. */
export function addReruns(one: Reruns, other: Reruns): Reruns {
  const byName = new Map<string, RerunWorkflow>()
  for (const { name, runs, jobs } of [...one.workflows, ...other.workflows]) {
    const before = byName.get(name) ?? { runs: 0, jobs: 0 }
    byName.set(name, { name, runs: before.runs + runs, jobs: before.jobs + jobs })
  }
  return {
    jobs: one.jobs + other.jobs,
    workflows: [...byName.values()].sort((a, b) => b.runs - a.runs || (a.name < b.name ? -1 : 1)),
    leftOut: one.leftOut + other.leftOut,
  }
}
