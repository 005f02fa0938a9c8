import type { Sluice } from '../../app/app.ts'
import type { JobView } from '../../store/find-jobs.ts'

/** A step as `run --json` tells it. */
export interface StepOutcome {
  readonly id: string
  readonly status: string
  readonly result?: unknown
  readonly error?: string
  /** Of a fan-out: the results of its children in their order, null where one has none, and how many ended how. */
  readonly results?: readonly unknown[]
  readonly counts?: Readonly<Record<string, number>>
  /** Of a group or sub-workflow. */
  readonly steps?: Readonly<Record<string, StepOutcome>>
}

const PAGE = 5000
/** A recursion is told to this depth: its result holds the rest. */
const MAX_LEVELS = 20

/** The steps of a workflow or group by name, with what is below them. */
export async function stepsOf(app: Sluice, id: string, depth = 0): Promise<Record<string, StepOutcome>> {
  const steps: Record<string, StepOutcome> = {}
  for (const job of await childrenOf(app, id)) steps[job.step ?? job.task] = await toOutcome(app, job, depth)
  return steps
}

async function toOutcome(app: Sluice, job: JobView, depth: number): Promise<StepOutcome> {
  const { id, status, error } = job
  const common = { id, status, ...(error !== null && { error }) }
  if (job.kind === 'fanout') {
    const children = await childrenOf(app, id)
    const counts: Record<string, number> = { total: children.length }
    for (const child of children) counts[child.status] = (counts[child.status] ?? 0) + 1
    return { ...common, counts, results: children.map(({ result }) => result) }
  }
  const result = status === 'completed' ? { result: job.result } : {}
  if (job.kind === null || depth >= MAX_LEVELS) return { ...common, ...result }
  return { ...common, ...result, steps: await stepsOf(app, id, depth + 1) }
}

/** All children of a job, in their order. */
async function childrenOf(app: Sluice, parent: string): Promise<JobView[]> {
  const found: JobView[] = []
  for (let before: string | undefined; ; ) {
    const page = await app.listJobs({ parent, limit: PAGE, ...(before !== undefined && { before }) })
    found.push(...page)
    if (page.length < PAGE) break
    before = page.at(-1)!.id
  }
  return found.sort((a, b) => (a.index ?? 0) - (b.index ?? 0))
}
