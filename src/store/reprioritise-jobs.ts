import { type Queryable, statement } from '../db/database.ts'

export interface ReprioritisedJob {
  readonly id: string
  readonly before: number
}

const REPRIORITISE = statement(
  'reprioritise_jobs',
  `with locked as materialized (
     select id, priority from sluice.jobs where id = any ($1) and state < 'running' and class_id is not null order by id for no key update
   ), moved as (
     update sluice.jobs j
        set priority = $2, rank = sluice.rank_v1($2, l.ageing_ms, j.submitted_at)
       from sluice.classes c join sluice.lanes l on l.name = c.lane
      where j.id = any (array(select k.id from locked k)) and c.id = j.class_id
     returning j.id
   ), told as (select sluice.hint_v1('ready', 'soon') from moved limit 1)
   select k.id, k.priority as before from moved m join locked k on k.id = m.id left join told on true order by k.id`,
)

/** Changes the place of several waiting jobs. Those that do not wait are left alone and not answered. */
export async function reprioritiseJobs(
  db: Queryable,
  ids: readonly string[],
  priority: number,
): Promise<ReprioritisedJob[]> {
  return db.run<ReprioritisedJob & Record<string, unknown>>(REPRIORITISE, [ids, priority])
}
