import { type Queryable, statement } from '../db/database.ts'
import type { CompositeKind, JobState } from '../model/job.ts'

/** A job on the way from a job of a tree to the root. */
export interface PathJob {
  readonly id: string
  readonly parentId: string | null
  readonly index: number | null
  readonly step: string | null
  readonly kind: CompositeKind | null
  readonly task: string
  readonly state: JobState
  readonly error: string | null
  readonly input: unknown
  readonly attempts: number
  readonly startedAt: Date | null
  readonly finishedAt: Date | null
  readonly superseded: boolean
  /** It ended as it was made: it could not be rendered, or its task was not known. */
  readonly stillborn: boolean
  /** Of a composite that has begun: its graph, its place in it, its version, how many children a fan-out has. */
  readonly graph: string | null
  readonly node: string | null
  readonly version: number | null
  readonly total: number | null
}

// Each job once, however many of the jobs asked for lie below it.
const LOAD = statement(
  'load_paths',
  `with recursive path as (
     select j.id from sluice.job_data j where j.id = any ($1::bigint[])
     union
     select j.parent_id from path p join sluice.job_data j on j.id = p.id where j.parent_id is not null
   )
   select j.id, j.parent_id as "parentId", j.idx as "index", j.step, j.composite as kind, j.task, j.state, j.error, j.input,
          j.attempt as attempts, j.started_at as "startedAt", j.finished_at as "finishedAt",
          j.superseded_at is not null as superseded,
          j.state = 'failed' and j.attempt = 0 and c.job_id is null and j.error not like 'capacity:%' as stillborn,
          c.graph, c.node, c.version, c.total
     from sluice.jobs_by_id_v1(array(select p.id from path p)) j left join sluice.composites c on c.job_id = j.id`,
)

/** A job and everything above it, the root last. Empty when there is no such job. */
export async function loadPath(db: Queryable, id: string): Promise<readonly PathJob[]> {
  return (await loadPaths(db, [id])).get(id) ?? []
}

/** The same for several jobs, by their ids. Jobs that do not exist are missing. */
export async function loadPaths(db: Queryable, ids: readonly string[]): Promise<Map<string, PathJob[]>> {
  const jobs = new Map(
    (await db.run<PathJob & Record<string, unknown>>(LOAD, [ids])).map((job) => [job.id, job]),
  )
  const paths = new Map<string, PathJob[]>()
  for (const id of ids) {
    const path: PathJob[] = []
    for (let job = jobs.get(id); job !== undefined; job = jobs.get(job.parentId ?? '')) path.push(job)
    if (path.length > 0) paths.set(id, path)
  }
  return paths
}
