import { type Queryable, statement } from '../db/database.ts'

export interface DutyView {
  readonly name: string
  readonly ranAt: Date | null
  readonly agoMs: number | null
  readonly ranBy: string | null
}

const LIST = statement(
  'list_duties',
  `select name, ran_at as "ranAt", ran_by as "ranBy",
          (extract(epoch from clock_timestamp() - ran_at) * 1000)::float8 as "agoMs"
     from sluice.duties order by name`,
)

/** Every duty that has ever been done, with when and by whom it last was. */
export async function listDuties(db: Queryable): Promise<DutyView[]> {
  return db.run<DutyView & Record<string, unknown>>(LIST)
}
