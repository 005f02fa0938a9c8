import { type Queryable, statement } from '../db/database.ts'
import { selected } from '../model/fields/columns.ts'
import { LANE_FIELDS, type LaneValues } from '../model/fields/lane.ts'

export interface Lane extends LaneValues {
  readonly name: string
  readonly tasks: readonly string[]
  /** Slots held by workers, busy or idle for a moment. */
  readonly held: number
  readonly running: number
  /** Jobs that workers have beyond their slots and have not started. */
  readonly assigned: number
  /** A file or a program says that it exists. False: an operator created it. */
  readonly declared: boolean
  /** Fields an operator changed. */
  readonly operatorSet: readonly string[]
  readonly updatedAt: Date
  readonly updatedBy: string
}

const LIST = statement(
  'list_lanes',
  `with busy as materialized (select r.class_id, sum(sluice.started_in_v1(r)) as n, sum(cardinality(r.assigned)) as assigned
                                  from sluice.claims r group by r.class_id)
   select l.name, ${selected(LANE_FIELDS, 'l')},
          l.declared <> '{}' as declared, l.operator_set as "operatorSet", l.updated_at as "updatedAt",
          l.updated_by as "updatedBy",
          array(select t.name from sluice.tasks t where t.lane = l.name order by t.name) as tasks,
          coalesce(sum(h.slots), 0)::integer as held,
          coalesce((select sum(b.n)::integer from busy b join sluice.classes c on c.id = b.class_id where c.lane = l.name), 0) as running,
          coalesce((select sum(b.assigned)::integer from busy b join sluice.classes c on c.id = b.class_id where c.lane = l.name), 0) as assigned
     from sluice.lanes l left join sluice.holdings h on h.lane = l.name
    where l.deleted_at is null
    group by l.name order by l.name`,
)

/** Every lane with its settings, its tasks and what is in use. */
export async function listLanes(db: Queryable): Promise<Lane[]> {
  return db.run<Lane & Record<string, unknown>>(LIST)
}
