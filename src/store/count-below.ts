import { type Queryable, statement } from '../db/database.ts'

interface Share {
  readonly total: number
  /** However they ended. */
  readonly ended: number
}

/** How far something is that has others below it: of a fan-out its children, of a workflow its steps. */
export interface Below extends Share {
  /** Of a workflow: the first of its fan-outs that runs. */
  readonly fanOut?: Share & { readonly step: string }
}

/** Steps are counted one by one, for each workflow of a page. */
const MOST_STEPS = 500

// A fan-out has its counts in its row. Of a workflow the definition says how many steps there are, read once for all of its
// runs; its children are read by the index on places.
const COUNT = statement(
  'count_below',
  `with wanted as materialized (
     select j.id, j.composite, c.graph, c.node from unnest($1::bigint[]) i(id)
       join sluice.jobs j on j.id = i.id join sluice.composites c on c.job_id = j.id
      where j.state = 'running' and j.composite in ('workflow', 'fanout')
   ), sizes as materialized (
     select d.graph, d.node, jsonb_array_length(g.body -> 'workflows' -> d.node -> 'steps') as steps
       from (select distinct w.graph, w.node from wanted w where w.composite = 'workflow') d
       join sluice.graphs g on g.hash = d.graph
   )
   select w.id, f.total, f.completed + f.failed + f.cancelled as ended, null::text as step, null::integer as fan_total, null::integer as fan_ended
     from wanted w cross join lateral sluice.fanout_v1(w.id) f where w.composite = 'fanout'
   union all
   select w.id, s.steps, k.ended, (select j.step from sluice.jobs j where j.id = k.fan), f.total, f.completed + f.failed + f.cancelled
     from wanted w join sizes s on s.graph = w.graph and s.node = w.node and s.steps <= $2
    cross join lateral (
      select count(*) filter (where j.state >= 'completed')::integer as ended,
             (array_agg(j.id order by j.idx) filter (where j.composite = 'fanout' and j.state = 'running'))[1] as fan
        from sluice.jobs j where j.parent_id = w.id and j.superseded_at is null) k
     left join lateral sluice.fanout_v1(k.fan) f on true
    where w.composite = 'workflow'`,
)

interface Row extends Record<string, unknown> {
  id: string
  total: number
  ended: number
  step: string | null
  fan_total: number | null
  fan_ended: number | null
}

/**
 * How far these jobs are, by their ids, as far as that is known: of fan-outs that run, and of workflows that run and have at
 * most 500 steps.
 */
export async function countBelow(db: Queryable, ids: readonly string[]): Promise<Map<string, Below>> {
  const rows = await db.run<Row>(COUNT, [ids, MOST_STEPS])
  return new Map(
    rows.map(({ id, total, ended, step, fan_total: fanTotal, fan_ended: fanEnded }) => {
      const fanOut =
        step === null || fanTotal === null ? undefined : { step, total: fanTotal, ended: fanEnded ?? 0 }
      return [id, { total, ended, ...(fanOut !== undefined && { fanOut }) }]
    }),
  )
}
