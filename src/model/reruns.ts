/** What a retry of many jobs would start. */
export interface Reruns {
  /** Leaf jobs to run again. */
  readonly jobs: number
  /** Workflows to run again, by name. */
  readonly workflows: readonly RerunWorkflow[]
  /** Jobs that are skipped because their workflow was cancelled on request. */
  readonly leftOut: number
}

export interface RerunWorkflow {
  readonly name: string
  /** Runs of the workflow, each counted once. */
  readonly runs: number
  /** Leaf jobs to run again in these runs. */
  readonly jobs: number
}

export const NO_RERUNS: Reruns = { jobs: 0, workflows: [], leftOut: 0 }

/** Adds two results, with the workflow that has the most runs first. */
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
