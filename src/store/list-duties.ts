import { type Queryable, statement } from '../db/database.ts'

export interface DutyView {
  readonly name: string
  readonly ranAt: Date | null
  /** Since it was last done, or somebody looked whether it was due and found nothing to do. */
  readonly agoMs: number | null
  readonly ranBy: string | null
}

// Those that are claimed only when there is something to do: see claim-duties.ts. Whoever looks notes that in one row, at most
// once a second, so nothing is written for each. `provision` is not among them: not everybody who looks can do it.
const LIST = statement(
  'list_duties',
  `select d.name, d.ran_at as "ranAt", d.ran_by as "ranBy",
          (extract(epoch from clock_timestamp() - greatest(d.ran_at,
             case when d.name in ('promote', 'schedule', 'recover', 'expire', 'sample') then k.last_at end)) * 1000)::float8 as "agoMs"
     from sluice.duties d cross join sluice.watch k order by d.name`,
)

/** Every duty that has ever been done, with when and by whom it last was. */
export async function listDuties(db: Queryable): Promise<DutyView[]> {
  return db.run<DutyView & Record<string, unknown>>(LIST)
}
