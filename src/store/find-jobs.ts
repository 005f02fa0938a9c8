import { type Queryable, statement } from '../db/database.ts'
import type { ErrorDetail } from '../model/error-detail.ts'
import { type CompositeKind, type JobState, type JobStatus, statusOf } from '../model/job.ts'

/** Everything about one job except its logs and earlier attempts. */
export interface JobView {
  readonly id: string
  /** Of a workflow its name, of a group or fan-out its place in the workflow. */
  readonly task: string
  /** `null` for what takes no slot. */
  readonly lane: string | null
  /** Whether the submission named the lane. Otherwise a waiting job follows its task to another lane. */
  readonly laneChosen: boolean
  /** What its task loads. */
  readonly model: string | null
  /** Where it runs, while it draws from devices: `host/name`. */
  readonly devices: readonly string[]
  /** `null` for a leaf: a task that runs. */
  readonly kind: CompositeKind | null
  /** Its place in a tree: the job it is part of, the step it is there, and where it stands among its siblings. */
  readonly parentId: string | null
  readonly rootId: string | null
  /** The name of the workflow it is a step of. */
  readonly workflow: string | null
  /** Of a step: how the whole stands. It can run again once that has ended. */
  readonly rootStatus: JobStatus | null
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
  /** Of what was thrown, where `error` is about that: class, stack, causes and content. `null` in lists. */
  readonly errorDetail: ErrorDetail | null
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
  /** The job that this one was submitted in place of, after an edit; `null`: none. */
  readonly resubmitOf: string | null
  /** The jobs that were submitted in place of this one. */
  readonly resubmittedAs: readonly string[]
  /** A rerun has put another in its place, or in that of something above it: this one is history. */
  readonly superseded: boolean
}

/** What a list shows of a job: all but what may be large. */
export type JobSummary = Omit<JobView, 'input' | 'result' | 'checkpoint' | 'errorDetail'>

/** What only lists say of a job. */
export interface ListedFields {
  /** What blocks a queued job, in a few words, as last sampled. */
  readonly blockedBy?: string
  /** The beginning of the input of a job that waits for approval. Left out where the input is large. */
  readonly inputPreview?: string
}

/** Fields of jobs. Those that match every field given are meant. */
export interface JobSearch {
  readonly states?: readonly JobState[]
  readonly task?: string
  readonly lane?: string
  readonly key?: string
  readonly tag?: string
  readonly submittedBy?: string
  readonly submittedFrom?: Date
  readonly submittedTo?: Date
  readonly finishedFrom?: Date
  readonly finishedTo?: Date
  /** A part of the error, in capitals or not. */
  readonly error?: string
  /** Whether an attempt has failed or was lost before. */
  readonly again?: boolean
  /** Jobs of trees too. */
  readonly children?: boolean
  /** Without jobs that run. Workflows that run are found: they have jobs that have not started. */
  readonly unstarted?: boolean
  /** Failures whose errors are alike; these are not found by `listJobs`. */
  readonly fingerprint?: string
}

const COLUMNS = `j.id, j.task, c.lane, coalesce(c.chosen, false) as lane_chosen, c.model,
          array(select distinct coalesce(d.host || '/', '') || d.name from sluice.reservations r
                  join sluice.devices d on d.budget = r.budget and d.key = r.device
                 where r.job_id = j.id and r.attempt = j.attempt and j.state = 'running' and r.device <> '') as devices, j.composite, j.parent_id, j.root_id,
          (select r.task from sluice.jobs r where r.id = j.root_id) as workflow,
          (select r.state from sluice.jobs r where r.id = j.root_id) as root_state, j.step, j.idx, j.state, j.priority, j.key, j.tags, j.error,
          j.attempt, j.failures, j.losses, w.name as worker, j.cancel_at is not null and j.state = 'running' as cancelling, n.progress, n.message,
          j.submitted_at, j.ready_at, j.deadline_at, j.started_at, j.finished_at, j.submitted_by, j.approved_by,
          (select r.of_id::text from sluice.resubmissions r where r.job_id = j.id) as resubmit_of,
          array(select r.job_id::text from sluice.resubmissions r where r.of_id = j.id order by r.job_id) as resubmitted_as,
          j.parent_id is not null and j.state >= 'completed' and sluice.is_replaced_v1(j.superseded_at, j.root_id, j.parent_id) as superseded`
const PAYLOADS = 'j.input, j.result, n.checkpoint'
const DETAIL =
  'case when j.error is not null then sluice.error_detail_v1(j.id, j.attempt, j.state, j.error) end'
const JOINS = `left join sluice.classes c on c.id = j.class_id
     left join sluice.workers w on w.id = j.worker_id
     left join sluice.notes n on n.job_id = j.id`

const FIND = statement(
  'find_jobs',
  `select ${COLUMNS}, ${PAYLOADS}, ${DETAIL} as error_detail
     from sluice.jobs_by_id_v1($1) j ${JOINS} order by j.id desc`,
)

// Of trees, which are not part of lists.
const FIND_CHILDREN = statement(
  'find_children',
  `select ${COLUMNS}, ${PAYLOADS}
     from sluice.jobs_by_id_v1(array(
            select d.id from sluice.job_data d
             where d.parent_id = $1 and d.superseded_at is null and ($2::bigint is null or d.id < $2) order by d.id desc limit $3)) j
     ${JOINS} order by j.id desc`,
)

// An input is cut only where that is cheap: a large one would be read whole for its first characters.
const LISTED = `case when j.state = 'ready' and w.name is null then
            (select sluice.obstacle_brief_v1(s.obstacle, s.details) from sluice.samples s
              where s.class_id = j.class_id and s.at > clock_timestamp() - interval '6 seconds' order by s.at desc limit 1) end as blocked_by,
          case when j.state = 'awaiting_approval' and pg_column_size(j.input) < 50000 then left(j.input::text, 300) end as input_preview`

const LIST = statement(
  'list_jobs',
  `select l.next, ${LISTED}, ${COLUMNS}, case when $5 then j.input end as input, case when $5 then j.result end as result,
          case when $5 then n.checkpoint end as checkpoint
     from sluice.list_jobs_v1($1, $2, $3, $4) l
     left join lateral sluice.jobs_by_id_v1(l.ids) j on true
     ${JOINS}
    order by j.id desc nulls last`,
)

const LIST_LINE = statement(
  'list_line',
  `select l.next_rank, l.next_id, ${LISTED}, ${COLUMNS}, null::jsonb as input, null::jsonb as result, null::jsonb as checkpoint
     from sluice.list_line_v1($1, $2, $3, $4, $5) l
     left join lateral sluice.jobs_by_id_v1(l.ids) j on true
     ${JOINS}
    order by array_position(l.ids, j.id)`,
)

const LIST_IDS = statement('list_job_ids', 'select ids, next from sluice.list_jobs_v1($1, $2, $3, $4)')

interface JobRow {
  id: string
  task: string
  lane: string | null
  lane_chosen: boolean
  model: string | null
  devices: string[]
  composite: CompositeKind | null
  parent_id: string | null
  root_id: string | null
  workflow: string | null
  root_state: JobState | null
  step: string | null
  idx: number | null
  state: JobState
  priority: number
  key: string | null
  tags: string[] | null
  input: unknown
  result: unknown
  error: string | null
  error_detail?: ErrorDetail | null
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
  resubmit_of: string | null
  resubmitted_as: string[]
  superseded: boolean
}

interface ListedRow extends JobRow {
  blocked_by: string | null
  input_preview: string | null
}

type Row = JobRow & Record<string, unknown>

/** The jobs with these ids, newest first. */
export async function findJobs(db: Queryable, ids: readonly string[]): Promise<JobView[]> {
  return (await db.run<Row>(FIND, [ids])).map(toJobView)
}

/** Children of a job, newest first, of those with an id below `before`. */
export async function findChildren(
  db: Queryable,
  parent: string,
  page: { readonly before?: string | undefined; readonly limit: number },
): Promise<JobView[]> {
  return (await db.run<Row>(FIND_CHILDREN, [parent, page.before ?? null, page.limit])).map(toJobView)
}

/** A part of a list. */
export interface PageRequest {
  /** Only jobs with a smaller id. */
  readonly before?: string | undefined
  readonly limit: number
  /** How many entries of an index are looked at. */
  readonly look: number
}

/**
 * Roots that match, newest first.
 *
 * There may be fewer than asked for and yet more to come: `next` is the place to go on from, `null` at the end.
 *
 * @param payloads Without them, inputs, results and checkpoints are `null`: they may be large.
 */
export async function listJobs(
  db: Queryable,
  search: JobSearch,
  page: PageRequest,
  payloads: boolean,
): Promise<{ jobs: (JobView & ListedFields)[]; next: string | null }> {
  type Found = ListedRow & { next: string | null } & Record<string, unknown>
  const rows = await db.run<Found>(LIST, [...toValues(search, page), payloads])
  return { jobs: rows.filter(({ id }) => id !== null).map(toListed), next: rows[0]!.next }
}

/** A place in the line of queued jobs: that of the last job of a page. */
export interface LinePlace {
  readonly rank: number
  readonly id: string
}

/**
 * Queued jobs that match, in the order in which they would start.
 *
 * There may be fewer than asked for and yet more to come: `next` is the place to go on from, `null` at the end.
 */
export async function listLine(
  db: Queryable,
  search: JobSearch,
  page: { readonly after?: LinePlace | undefined; readonly limit: number; readonly look: number },
): Promise<{ jobs: (JobSummary & ListedFields)[]; next: LinePlace | null }> {
  type Found = ListedRow & { next_rank: number | null; next_id: string } & Record<string, unknown>
  const { after, limit, look } = page
  const values = [toFilter(search), after?.rank ?? null, after?.id ?? null, limit, look]
  const rows = await db.run<Found>(LIST_LINE, values)
  const { next_rank: rank, next_id: id } = rows[0]!
  const jobs = rows.filter((row) => row.id !== null).map(toListed)
  return { jobs, next: rank === null ? null : { rank, id } }
}

function toListed(row: ListedRow): JobView & ListedFields {
  return {
    ...toJobView(row),
    ...(row.blocked_by !== null && { blockedBy: row.blocked_by }),
    ...(row.input_preview !== null && { inputPreview: row.input_preview }),
  }
}

/** As `listJobs`, ids only. */
export async function listJobIds(
  db: Queryable,
  search: JobSearch,
  page: PageRequest,
): Promise<{ ids: string[]; next: string | null }> {
  return (await db.run<{ ids: string[]; next: string | null }>(LIST_IDS, toValues(search, page)))[0]!
}

function toValues(search: JobSearch, page: PageRequest): unknown[] {
  return [toFilter(search), page.before ?? null, page.limit, page.look]
}

function toFilter({ submittedBy, error, ...search }: JobSearch): string {
  return JSON.stringify({ ...search, by: submittedBy, error: error?.toLowerCase() })
}

function toJobView(row: JobRow): JobView {
  return {
    id: row.id,
    task: row.task,
    lane: row.lane,
    laneChosen: row.lane_chosen,
    model: row.model,
    devices: row.devices,
    kind: row.composite,
    parentId: row.parent_id,
    rootId: row.root_id,
    workflow: row.workflow,
    rootStatus: row.root_state === null ? null : statusOf(row.root_state),
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
    errorDetail: row.error_detail ?? null,
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
    resubmitOf: row.resubmit_of,
    resubmittedAs: row.resubmitted_as,
    superseded: row.superseded,
  }
}
