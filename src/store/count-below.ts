import { type Queryable, statement } from '../db/database.ts'
import type { CompositeKind, JobState } from '../model/job.ts'

/** A running composite of a page: how far it is, and the step it waits for. */
export interface BelowRow {
  readonly id: string
  readonly total: number
  /** However they ended. */
  readonly ended: number
  /** Of a fan-out itself, or of a workflow the first of its fan-outs that runs. */
  readonly fan: FanRow | null
  /** Of a workflow: the step that it waits for, the deepest one through groups and sub-workflows. */
  readonly wait: WaitRow | null
}

export interface FanRow {
  readonly id: string
  readonly step: string | null
  readonly total: number
  readonly completed: number
  readonly failed: number
  readonly cancelled: number
  readonly window: number | null
  readonly graph: string
  readonly node: string
}

export interface WaitRow {
  readonly id: string
  /** The names of the steps on the way, with slashes between. */
  readonly step: string
  readonly task: string
  readonly kind: CompositeKind | null
  readonly state: JobState
  /** Milliseconds until it is tried again. */
  readonly dueMs: number | null
  readonly error: string | null
  /** Why jobs of its kind wait, as last sampled. */
  readonly reason: string | null
}

/** Steps are counted one by one, for each workflow of a page. */
const MOST_STEPS = 500
/** Groups and sub-workflows that are looked through for the step that is waited for. */
const MOST_LEVELS = 5

// A fan-out has its counts in its row. Of a workflow the definition says how many steps there are, read once for all of its
// runs; its children are read by the index on places. Of several steps that are active it waits for a person first, then for
// one that has not started.
const COUNT = statement(
  'count_below',
  `with recursive wanted as materialized (
     select j.id, j.composite, c.graph, c.node from unnest($1::bigint[]) i(id)
       join sluice.jobs j on j.id = i.id join sluice.composites c on c.job_id = j.id
      where j.state = 'running' and j.composite in ('workflow', 'fanout')
   ), sizes as materialized (
     select d.graph, d.node, jsonb_array_length(g.body -> 'workflows' -> d.node -> 'steps') as steps
       from (select distinct w.graph, w.node from wanted w where w.composite = 'workflow') d
       join sluice.graphs g on g.hash = d.graph
   ), below as materialized (
     select w.id, s.steps as total, k.ended, k.fan
       from wanted w join sizes s on s.graph = w.graph and s.node = w.node and s.steps <= $2
      cross join lateral (
        select count(*) filter (where j.state >= 'completed')::integer as ended,
               (array_agg(j.id order by j.idx) filter (where j.composite = 'fanout' and j.state = 'running'))[1] as fan
          from sluice.jobs j where j.parent_id = w.id and j.superseded_at is null) k
      where w.composite = 'workflow'
     union all
     select w.id, f.total, f.completed + f.failed + f.cancelled, w.id
       from wanted w cross join lateral sluice.fanout_v1(w.id) f where w.composite = 'fanout'
   ), way(top, id, step, composite, state, level) as (
     select b.id, x.id, x.step, x.composite, x.state, 1 from below b join wanted w on w.id = b.id and w.composite = 'workflow'
      cross join lateral (
        select j.id, j.step, j.composite, j.state from sluice.jobs j
         where j.parent_id = b.id and j.superseded_at is null and j.state < 'completed'
         order by case j.state when 'awaiting_approval' then 0 when 'running' then 2 else 1 end, j.idx limit 1) x
     union all
     select y.top, x.id, y.step || '/' || x.step, x.composite, x.state, y.level + 1 from way y
      cross join lateral (
        select j.id, j.step, j.composite, j.state from sluice.jobs j
         where j.parent_id = y.id and j.superseded_at is null and j.state < 'completed'
         order by case j.state when 'awaiting_approval' then 0 when 'running' then 2 else 1 end, j.idx limit 1) x
      where y.composite in ('workflow', 'group') and y.state = 'running' and y.level < $3
   ), waits as materialized (
     select distinct on (y.top) y.top, y.id, y.step from way y order by y.top, y.level desc
   ), waited as materialized (
     select j.* from sluice.jobs_by_id_v1(array(select w.id from waits w)) j
   )
   select b.id, b.total, b.ended,
          case when f.total is not null then jsonb_build_object('id', b.fan::text, 'step', k.step, 'total', f.total, 'completed', f.completed,
            'failed', f.failed, 'cancelled', f.cancelled, 'window', f.window_size, 'graph', c.graph, 'node', c.node) end as fan,
          (select jsonb_build_object('id', w.id::text, 'step', w.step, 'task', j.task, 'kind', j.composite, 'state', j.state,
                    'dueMs', case when j.state = 'scheduled' then greatest(0, round(extract(epoch from j.ready_at - clock_timestamp()) * 1000)) end,
                    'error', left(j.error, 300),
                    'reason', case when j.state = 'ready' then (
                      select sluice.why_waiting_text_v1(s.obstacle, s.details) from sluice.samples s where s.class_id = j.class_id and s.at > clock_timestamp() - interval '6 seconds'
                       order by s.at desc limit 1) end)
             from waits w join waited j on j.id = w.id where w.top = b.id) as wait
     from below b
     left join lateral sluice.fanout_v1(b.fan) f on true
     left join sluice.composites c on c.job_id = b.fan
     left join sluice.job_data k on k.id = b.fan`,
)

/**
 * How far these jobs are, as far as that is known: fan-outs that run, and workflows that run and have at most 500 steps.
 */
export async function countBelow(db: Queryable, ids: readonly string[]): Promise<BelowRow[]> {
  return db.run<BelowRow & Record<string, unknown>>(COUNT, [ids, MOST_STEPS, MOST_LEVELS])
}
