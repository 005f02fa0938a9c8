import { type Queryable, statement } from '../db/database.ts'
import type { CompositeKind, JobState } from '../model/job.ts'

/** One job of a tree, without its data. */
export interface TreeRow {
  readonly id: string
  readonly parentId: string | null
  readonly previousId: string | null
  readonly nextId: string | null
  readonly firstChildId: string | null
  readonly step: string | null
  readonly index: number | null
  readonly kind: CompositeKind | null
  readonly task: string
  readonly state: JobState
  readonly error: string | null
  readonly attempts: number
  readonly submittedAt: Date
  readonly startedAt: Date | null
  readonly finishedAt: Date | null
  /** Jobs that were in its place before a rerun. */
  readonly earlierIds: readonly string[]
  /** Direct children: those of a fan-out that are still to be made included. */
  readonly total: number
  /** Of a fan-out; of anything else 0. */
  readonly completed: number
  readonly failed: number
  readonly cancelled: number
  readonly window: number | null
  /** While it is paused: the window that a resume goes back to. */
  readonly windowBefore: number | null
  readonly inFlight: number
  /** Of a composite that has begun: the hash of its graph and its place in it. */
  readonly graph: string | null
  readonly node: string | null
}

const COLUMNS = `j.id, j.parent_id as "parentId", j.step, j.idx as "index", j.composite as kind, j.task, j.state, j.error,
          j.attempt as attempts, j.submitted_at as "submittedAt", j.started_at as "startedAt", j.finished_at as "finishedAt",
          (select k.id from sluice.jobs k where k.parent_id = j.parent_id and k.superseded_at is null and k.idx < j.idx
            order by k.idx desc limit 1) as "previousId",
          (select k.id from sluice.jobs k where k.parent_id = j.parent_id and k.superseded_at is null and k.idx > j.idx
            order by k.idx limit 1) as "nextId",
          (select k.id from sluice.jobs k where j.composite is not null and k.parent_id = j.id and k.superseded_at is null
            order by k.idx limit 1) as "firstChildId",
          array(select k.id::text from sluice.jobs k where k.parent_id = j.parent_id and k.superseded_at is not null and k.idx = j.idx
                   and k.id <> j.id order by k.id) as "earlierIds",
          case when j.composite is null then 0
               when j.composite = 'fanout' then coalesce(f.total, 0)
               else (select count(*) from sluice.jobs k where k.parent_id = j.id and k.superseded_at is null)::integer end as total,
          coalesce(f.completed, 0) as completed, coalesce(f.failed, 0) as failed, coalesce(f.cancelled, 0) as cancelled,
          f.window_size as "window", f.window_before as "windowBefore", coalesce(f.in_flight, 0) as "inFlight", c.graph, c.node`
const JOINS =
  'left join sluice.composites c on c.job_id = j.id left join lateral sluice.fanout_v1(j.id) f on true'

const LOAD = statement('load_tree_nodes', `select ${COLUMNS} from sluice.jobs_by_id_v1($1) j ${JOINS}`)

// All children where they are few. Of many: failures, and the first and last ones. Each branch reads the index on places
// and stops; only failures are looked for further on, and only where some were counted.
const LOAD_CHILDREN = statement(
  'load_tree_children',
  `with picked as materialized (
     select k.id
       from sluice.jobs p
       left join sluice.composites h on h.job_id = p.id
      cross join lateral (select p.composite = 'fanout' and coalesce(h.total, 0) > $2 as wide) f
      cross join lateral (
        (select x.id from sluice.job_data x where not f.wide and x.parent_id = p.id and x.superseded_at is null
          order by x.idx limit $3)
        union
        (select x.id from sluice.job_data x where f.wide and x.parent_id = p.id and x.superseded_at is null order by x.idx limit $4)
        union
        (select x.id from sluice.job_data x where f.wide and x.parent_id = p.id and x.superseded_at is null order by x.idx desc limit $4)
        union
        (select x.id from sluice.job_data x where f.wide and (h.failed > 0 or p.state = 'running') and x.parent_id = p.id
             and x.superseded_at is null and (select o.state from sluice.outcomes o where o.id = x.id) = 'failed' order by x.idx limit $5)
        union
        (select x.id from sluice.job_data x where f.wide and h.cancelled > 0 and x.parent_id = p.id
             and x.superseded_at is null and (select o.state from sluice.outcomes o where o.id = x.id) = 'cancelled' order by x.idx limit $4)) k
      where p.id = any ($1::bigint[])
   )
   select ${COLUMNS} from sluice.jobs_by_id_v1(array(select i.id from picked i)) j ${JOINS}
    order by j.parent_id, j.idx`,
)

export async function loadTreeNodes(db: Queryable, ids: readonly string[]): Promise<TreeRow[]> {
  return db.run<TreeRow & Record<string, unknown>>(LOAD, [ids])
}

export interface Fold {
  /** A fan-out with more children is wide. */
  readonly wide: number
  /** Of others, so many children at most. */
  readonly most: number
  /** Of a wide one: so many of the first, of the last and of the cancelled, and so many that failed. */
  readonly ends: number
  readonly failures: number
}

/** Children of these jobs in order, those of wide fan-outs only in part. */
export async function loadTreeChildren(
  db: Queryable,
  parents: readonly string[],
  fold: Fold,
): Promise<TreeRow[]> {
  const { wide, most, ends, failures } = fold
  return db.run<TreeRow & Record<string, unknown>>(LOAD_CHILDREN, [parents, wide, most, ends, failures])
}
