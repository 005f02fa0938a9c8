import { type Queryable, statement } from '../db/database.ts'
import type { CompositeKind, JobState } from '../model/job.ts'

/** One job of a tree, with what a view of it tells. */
export interface Branch {
  readonly id: string
  readonly parentId: string | null
  readonly index: number | null
  readonly step: string | null
  readonly task: string
  readonly kind: CompositeKind | null
  readonly state: JobState
  readonly error: string | null
  readonly attempt: number
  readonly failures: number
  readonly progress: number | null
  readonly message: string | null
  readonly readyAt: Date
  readonly startedAt: Date | null
  readonly finishedAt: Date | null
  /** Of a composite that has begun: the hash of its graph and its place in it. */
  readonly graph: string | null
  readonly node: string | null
  /** Of a fan-out that has begun: its window, and how its children stand. */
  readonly window: number | null
  /** While it is paused: the window that a resume goes back to. */
  readonly windowBefore: number | null
  readonly inFlight: number | null
  readonly total: number | null
  readonly completed: number | null
  readonly failed: number | null
  readonly cancelled: number | null
  /** The time of the database. */
  readonly now: Date
}

const COLUMNS = `j.id, j.parent_id as "parentId", j.idx as index, j.step, j.task, j.composite as kind, j.state, left(j.error, 2000) as error,
          j.attempt, j.failures, n.progress, n.message, j.ready_at as "readyAt", j.started_at as "startedAt", j.finished_at as "finishedAt",
          c.graph, c.node, f.window_size as window, f.window_before as "windowBefore", f.total, f.completed, f.failed, f.cancelled, f.in_flight as "inFlight",
          clock_timestamp() as now`
const JOINS = `left join sluice.composites c on c.job_id = j.id
     left join lateral sluice.fanout_v1(j.id) f on true
     left join sluice.notes n on n.job_id = j.id`

const LOAD_JOB = statement('load_branch', `select ${COLUMNS} from sluice.jobs j ${JOINS} where j.id = $1`)

const LOAD_CHILDREN = statement(
  'load_branches',
  `select ${COLUMNS}
     from sluice.jobs_by_id_v1(array(
            select d.id from sluice.job_data d where d.parent_id = any ($1) and d.superseded_at is null order by d.parent_id, d.idx limit $2)) j
     ${JOINS} order by j.parent_id, j.idx`,
)

// Those in flight are just before the first that waits. Looking back from there, and not far, costs the same in a fan-out of
// any size; one that takes much longer than its siblings is counted, and not among these.
const LOAD_IN_FLIGHT = statement(
  'load_branches_in_flight',
  `with picked as materialized (
     select b.id from unnest($1::bigint[]) p(id)
      cross join lateral (
        select s.id from (
          select k.id, k.idx, (select o.id from sluice.outcomes o where o.id = k.id) as ended from sluice.job_data k
           where k.parent_id = p.id and k.superseded_at is null
             and k.idx < coalesce((select w.idx from sluice.queue w where w.parent_id = p.id and w.state = 'waiting' order by w.idx limit 1), 2147483647)
           order by k.idx desc limit $3) s
         where s.ended is null order by s.idx limit $2) b
   )
   select ${COLUMNS} from sluice.jobs_by_id_v1(array(select p.id from picked p)) j ${JOINS}
    order by array_position($1::bigint[], j.parent_id), j.idx`,
)

const LOAD_FAILED = statement(
  'load_failed_branches',
  `select ${COLUMNS}
     from (select d.id from sluice.job_data d join sluice.outcomes o on o.id = d.id and o.state = 'failed'
            where d.parent_id = $1 and d.superseded_at is null order by d.idx limit $2) i
     join sluice.jobs j on j.id = i.id ${JOINS}
    order by j.idx`,
)

// By places, so that a page costs what it shows; with states, as many children more as are passed over on the way.
const LOAD_FROM = statement(
  'load_branches_from',
  `select ${COLUMNS}
     from sluice.jobs_by_id_v1(array(
            select k.id from sluice.jobs k where k.parent_id = $1 and k.superseded_at is null and k.idx >= $2
               and ($3::sluice.job_state[] is null or k.state = any ($3)) order by k.idx limit $4)) j
     ${JOINS} order by j.idx`,
)

type Row = Branch & Record<string, unknown>

export async function loadBranch(db: Queryable, id: string): Promise<Branch | undefined> {
  return (await db.run<Row>(LOAD_JOB, [id]))[0]
}

/** The children of workflows and groups, in their order. */
export async function loadBranches(
  db: Queryable,
  parents: readonly string[],
  limit: number,
): Promise<Branch[]> {
  return db.run<Row>(LOAD_CHILDREN, [parents, limit])
}

/** Of each fan-out, children that have been let start and have not ended: up to `limit`, among the last `back` of those. */
export async function loadBranchesInFlight(
  db: Queryable,
  fanOuts: readonly string[],
  limit: number,
  back: number,
): Promise<Branch[]> {
  return db.run<Row>(LOAD_IN_FLIGHT, [fanOuts, limit, back])
}

/** The first children of a fan-out that failed. Looks at all of them: for when it has ended. */
export async function loadFailedBranches(db: Queryable, fanOut: string, limit: number): Promise<Branch[]> {
  return db.run<Row>(LOAD_FAILED, [fanOut, limit])
}

/** The children of a job from a place on, all or those in some states. */
export async function loadBranchesFrom(
  db: Queryable,
  parent: string,
  from: number,
  states: readonly JobState[] | undefined,
  limit: number,
): Promise<Branch[]> {
  return db.run<Row>(LOAD_FROM, [parent, from, states ?? null, limit])
}
