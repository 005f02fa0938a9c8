import { type Queryable, statement } from '../db/database.ts'
import { columnsOf, toColumns } from '../model/fields/columns.ts'
import { LANE_FIELDS, type LaneValues } from '../model/fields/lane.ts'

/** A lane with all its values. */
export interface LaneRecord extends LaneValues {
  readonly name: string
}

const COLUMNS = columnsOf(LANE_FIELDS)
const CREATE = statement(
  'create_lanes',
  `insert into sluice.lanes (name, ${COLUMNS}, updated_by, declared)
   select g.name, ${columnsOf(LANE_FIELDS, 'g')}, $2, g.declared
     from jsonb_populate_recordset(null::sluice.lanes, $1) g
    -- What is declared already is not even looked at: its row may be locked.
    where not exists (select 1 from sluice.lanes k where k.name = g.name and k.declared <> '{}')
    order by g.name
   on conflict (name) do update
      set declared = excluded.declared,
          (${COLUMNS}, deleted_at) = (
            select ${columnsOf(LANE_FIELDS, 'v')}, v.deleted_at
              from (values (true, ${columnsOf(LANE_FIELDS, 'excluded')}, null::timestamptz),
                           (false, ${columnsOf(LANE_FIELDS, 'lanes')}, lanes.deleted_at))
                   v(again, ${COLUMNS}, deleted_at)
             where v.again = (lanes.deleted_at is not null and lanes.deleted_to is null))
    where lanes.declared = '{}'`,
)

/**
 * Creates the lanes that do not exist yet; the others stay as they are. One that only an operator made is declared from now on. One that
 * an operator deleted while nothing used it, and nobody had declared, is created again: something uses it now.
 */
export async function createLanes(db: Queryable, lanes: readonly LaneRecord[], by: string): Promise<void> {
  const rows = lanes.map(({ name, ...values }) => ({ name, ...toColumns(values), declared: values }))
  await db.run(CREATE, [JSON.stringify(rows), by])
}
