import { type Queryable, statement } from '../db/database.ts'
import { EXACT_DEPTH } from '../model/limits.ts'
import type { WaitObstacle } from '../model/wait-obstacle.ts'

export interface RunningJob {
  readonly id: string
  readonly task: string
  readonly worker: string | null
  readonly since: Date
  readonly submittedBy: string | null
}

export interface LaneWait {
  readonly lane: string
  readonly slots: number | null
  readonly perWorker: number | null
  /** Running in the lane. */
  readonly running: number
  /** Who changed the lane last, and when. */
  readonly changedBy: string
  readonly changedAt: Date
  readonly requires: Readonly<Record<string, unknown>>
  readonly obstacle: WaitObstacle | null
  readonly reason: string | null
  /** How many of its class wait, itself included, up to `EXACT_DEPTH`. */
  readonly depth: number
  /** It draws from budgets: the policy of budgets says when it starts. */
  readonly budgeted: boolean
  /** How many come before it, up to `EXACT_DEPTH`, assigned ones included: of its lane; where it draws from budgets, of its model or else of its task. */
  readonly ahead: number
  /** Jobs of the lane that ended lately, in a second. `null`: too few to tell. */
  readonly rate: number | null
  /** Those that run in its place, the oldest first: of its lane, or of the workers that could run it. */
  readonly holders: readonly RunningJob[]
}

// The rate is that of the jobs stored just before those that run: what ended lately is among them, whatever the length of
// the queue and of the history.
const EXPLAIN = statement(
  'explain_wait',
  `select c.lane, l.slots, l.per_worker as "perWorker", coalesce(s.running, 0) as running, l.updated_by as "changedBy",
          l.updated_at as "changedAt", c.requires, s.obstacle, s.reason, coalesce(s.depth, 1) as depth, c.budgeted, a.ahead, r.rate,
          coalesce(h.holders, '[]') as holders
     from sluice.jobs m
     join sluice.classes c on c.id = m.class_id
     join sluice.lanes l on l.name = c.lane
     left join sluice.sample_v1(${EXACT_DEPTH}) s on s.class_id = c.id
    cross join lateral (
      select least(${EXACT_DEPTH}, queued + assigned)::integer as ahead
        from (select count(*) as queued from (
                select 1 from sluice.classes k cross join lateral (
                  select 1 from sluice.queue q where q.class_id = k.id and q.state = 'ready' and (q.rank, q.id) < (m.rank, m.id) limit ${EXACT_DEPTH}) one
                 where k.lane = c.lane and (not c.budgeted or k.id = c.id or k.model = c.model) limit ${EXACT_DEPTH}) x) q,
             -- Jobs that budgets decide about are never assigned.
             (select coalesce(sum(cardinality(b.assigned)), 0) as assigned
                from sluice.claims b join sluice.classes k on k.id = b.class_id where k.lane = c.lane and not c.budgeted) p) a
    cross join lateral (
      select case when count(*) > 1 then (count(*) / greatest(extract(epoch from clock_timestamp() - min(e.finished_at)), 0.001))::float8 end as rate
        from (select o.class_id, o.finished_at from sluice.outcomes o
               where o.id < coalesce((select max((select max(i) from unnest(b.ids) i)) from sluice.claims b join sluice.classes k on k.id = b.class_id where k.lane = c.lane), m.id)
               order by o.id desc limit 2000) e
        join sluice.classes k on k.id = e.class_id and k.lane = c.lane
       where e.finished_at > clock_timestamp() - interval '10 minutes') r
    cross join lateral (
      select jsonb_agg(jsonb_build_object('id', b.id::text, 'task', b.task, 'worker', b.name, 'since', b.started_at, 'submittedBy', b.submitted_by)
                       order by b.started_at, b.id) as holders
        from (select j.id, d.task, o.name, j.started_at, d.submitted_by
                from (select b.worker_id, b.seq, w.name
                        from sluice.claims b join sluice.classes k on k.id = b.class_id join sluice.workers w on w.id = b.worker_id
                       where case when s.obstacle = 'capacity' then c.task = any (w.tasks) else k.lane = c.lane end
                       order by b.started_at fetch first $2 rows with ties) o
                join sluice.running j on j.worker_id = o.worker_id and j.seq = o.seq
                join sluice.job_data d on d.id = j.id
               order by j.started_at, j.id limit $2) b) h
    where m.id = $1`,
)

/** What a job waits for that is ready to start; `undefined` when it is none that takes a slot. */
export async function explainWait(db: Queryable, id: string, holders: number): Promise<LaneWait | undefined> {
  type Stored = Omit<LaneWait, 'holders'> & { holders: (Omit<RunningJob, 'since'> & { since: string })[] }
  const [row] = await db.run<Stored & Record<string, unknown>>(EXPLAIN, [id, holders])
  return row && { ...row, holders: row.holders.map((each) => ({ ...each, since: new Date(each.since) })) }
}
