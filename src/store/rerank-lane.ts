import { type Queryable, statement } from '../db/database.ts'

const RERANK = statement(
  'rerank_lane',
  `update sluice.jobs j set rank = sluice.rank_v1(j.priority, l.ageing_ms, j.submitted_at)
     from sluice.lanes l, sluice.classes c
    where l.name = $1 and c.lane = l.name and j.class_id = c.id and j.state in ('ready', 'scheduled', 'awaiting_approval')
      and j.id = any (array(select k.id from sluice.jobs k join sluice.classes d on d.id = k.class_id
                             where d.lane = $1 and k.state in ('ready', 'scheduled', 'awaiting_approval')
                             order by k.id for no key update of k))
   returning j.id`,
)

/** Puts a lane's waiting jobs in the order its present ageing asks for. Needed once, after ageing changed. */
export async function rerankLane(db: Queryable, name: string): Promise<number> {
  return (await db.run(RERANK, [name])).length
}
