import { type Queryable, statement } from '../db/database.ts'
import { ADMISSION_CHANGES, type AdmissionValues } from '../model/fields/admission.ts'
import { selected } from '../model/fields/columns.ts'

export interface Admission extends AdmissionValues {
  /** Root jobs that may wait, by task. */
  readonly maxQueued: Readonly<Record<string, number>>
  /** Root jobs that are active; `null` while there is no ceiling, since nobody counts them then. */
  readonly active: number | null
  /** Root jobs whose first start lies in the future, which are not active; `null` while they have no limit. */
  readonly scheduled: number | null
  /** Root jobs that have not ended of the five owners who have the most; `null` while `maxPerOwner` is not set. */
  readonly owners: Readonly<Record<string, number>> | null
  /** How many wait, of the tasks that have a limit. */
  readonly queued: Readonly<Record<string, number>>
  /** Root jobs that ended in a second, as last measured. */
  readonly drainRate: number
  /** What an operator has set: `maxActive`, `maxScheduled`, `maxPerOwner`, `deadline`, `maxQueued.TASK`. */
  readonly operatorSet: readonly string[]
  /** What the first start of a server set, and nobody has changed since: `maxActive`, `deadline`. */
  readonly defaultSet: readonly string[]
}

const READ = statement(
  'read_admission',
  `select ${selected(ADMISSION_CHANGES, 'a')}, a.max_queued as "maxQueued", a.owners, a.active, a.scheduled, a.queued, a.rate::float8 as "drainRate",
          a.operator_set as "operatorSet", a.default_set as "defaultSet" from sluice.admission_v1() a`,
)

/** The limits on what may enter, and how far they are used. Locks nothing. */
export async function readAdmission(db: Queryable): Promise<Admission> {
  return (await db.run<Admission & Record<string, unknown>>(READ))[0]!
}
