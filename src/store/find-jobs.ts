import { type Queryable, statement } from '../db/database.ts'
import { type CompositeKind, type JobState, type JobStatus, statusOf } from '../model/job.ts'

/** Everything about one job except its logs and earlier attempts. */
export interface JobView {
  readonly id: string
  /** Of a workflow its name, of a group or fan-out its place in the workflow. */
  readonly task: string
  /** `null` for what takes no slot. */
  readonly lane: string | null
  /** `null` for a leaf: a task that runs. */
  readonly kind: CompositeKind | null
  /** Its place in a tree: the job it is part of, the step it is there, and where it stands among its siblings. */
  readonly parentId: string | null
  readonly rootId: string | null
  readonly step: string | null
  readonly index: number | null
  readonly status: JobStatus
  readonly state: JobState
  readonly priority: number
  readonly key: string | null
  readonly tags: readonly string[]
  readonly input: unknown
  readonly result: unknown
  readonly error: string | null
  readonly attempt: number
  readonly failures: number
  readonly losses: number
  readonly worker: string | null
  /** True while a running job has been asked to stop and has not yet. */
  readonly cancelling: boolean
  readonly progress: number | null
  readonly message: string | null
  readonly checkpoint: unknown
  readonly submittedAt: Date
  readonly readyAt: Date
  readonly deadlineAt: Date | null
  readonly startedAt: Date | null
  readonly finishedAt: Date | null
  readonly submittedBy: string | null
  readonly approvedBy: string | null
}

/** Jobs to look for. Those that match every field given are meant. */
export interface JobSearch {
  readonly ids?: readonly string[]
  readonly states?: readonly JobState[]
  readonly task?: string
  readonly lane?: string
  readonly key?: string
  readonly tag?: string
  /** Children of this job. Without it, a listing has no children at all, unless their ids are given. */
  readonly parent?: string
  /** Only jobs with a smaller id: the cursor of a listing, newest first. */
  readonly before?: string
  readonly limit?: number
}

const FIND = statement(
  'find_jobs',
  `select j.id, j.task, c.lane, j.composite, j.parent_id, j.root_id, j.step, j.idx, j.state, j.priority, j.key, j.tags, j.input, j.result, j.error, j.attempt, j.failures, j.losses,
          w.name as worker, j.cancel_at is not null and j.state = 'running' as cancelling, n.progress, n.message, n.checkpoint,
          j.submitted_at, j.ready_at, j.deadline_at, j.started_at, j.finished_at, j.submitted_by, j.approved_by
     from sluice.jobs j
     left join sluice.classes c on c.id = j.class_id
     left join sluice.workers w on w.id = j.worker_id
     left join sluice.notes n on n.job_id = j.id
    where ($1::bigint[] is null or j.id = any ($1))
      and ($2::sluice.job_state[] is null or j.state = any ($2))
      and ($3::text is null or j.task = $3)
      and ($4::text is null or c.lane = $4)
      and ($5::text is null or j.key = $5)
      and ($6::text is null or $6 = any (j.tags))
      and ($7::bigint is null or j.id < $7)
      and case when $9::bigint is not null then j.parent_id = $9 and j.superseded_at is null
               else $1 is not null or j.parent_id is null end
    order by j.id desc limit $8`,
)

interface JobRow {
  id: string
  task: string
  lane: string | null
  composite: CompositeKind | null
  parent_id: string | null
  root_id: string | null
  step: string | null
  idx: number | null
  state: JobState
  priority: number
  key: string | null
  tags: string[] | null
  input: unknown
  result: unknown
  error: string | null
  attempt: number
  failures: number
  losses: number
  worker: string | null
  cancelling: boolean
  progress: number | null
  message: string | null
  checkpoint: unknown
  submitted_at: Date
  ready_at: Date
  deadline_at: Date | null
  started_at: Date | null
  finished_at: Date | null
  submitted_by: string | null
  approved_by: string | null
}

/** Jobs that match, newest first. */
export async function findJobs(db: Queryable, search: JobSearch): Promise<JobView[]> {
  const rows = await db.run<JobRow & Record<string, unknown>>(FIND, [
    search.ids ?? null,
    search.states ?? null,
    search.task ?? null,
    search.lane ?? null,
    search.key ?? null,
    search.tag ?? null,
    search.before ?? null,
    search.limit ?? search.ids?.length ?? 50,
    search.parent ?? null,
  ])
  return rows.map(toJobView)
}

function toJobView(row: JobRow): JobView {
  return {
    id: row.id,
    task: row.task,
    lane: row.lane,
    kind: row.composite,
    parentId: row.parent_id,
    rootId: row.root_id,
    step: row.step,
    index: row.idx,
    status: statusOf(row.state),
    state: row.state,
    priority: row.priority,
    key: row.key,
    tags: row.tags ?? [],
    input: row.input,
    result: row.result,
    error: row.error,
    attempt: row.attempt,
    failures: row.failures,
    losses: row.losses,
    worker: row.worker,
    cancelling: row.cancelling,
    progress: row.progress,
    message: row.message,
    checkpoint: row.checkpoint,
    submittedAt: row.submitted_at,
    readyAt: row.ready_at,
    deadlineAt: row.deadline_at,
    startedAt: row.started_at,
    finishedAt: row.finished_at,
    submittedBy: row.submitted_by,
    approvedBy: row.approved_by,
  }
}
