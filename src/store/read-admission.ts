import { type Queryable, statement } from '../db/database.ts'

export interface Admission {
  /** Root jobs that may be active at once; `null`: no ceiling. */
  readonly maxActive: number | null
  /** Root jobs whose first start may lie in the future; `null`: no limit. */
  readonly maxScheduled: number | null
  /** Root jobs that one owner may have, those for later included; `null`: no limit. */
  readonly maxPerOwner: number | null
  /** Root jobs that may wait, by task. */
  readonly maxQueued: Readonly<Record<string, number>>
  /** How long jobs may wait for their start whose submission and task say nothing about it; `null`: for ever. */
  readonly deadlineMs: number | null
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
  `select max_active as "maxActive", max_scheduled as "maxScheduled", max_queued as "maxQueued", deadline_ms::float8 as "deadlineMs",
          max_per_owner as "maxPerOwner", owners, active, scheduled, queued, rate::float8 as "drainRate",
          operator_set as "operatorSet", default_set as "defaultSet" from sluice.admission_v1()`,
)

/** The limits on what may enter, and how far they are used. Locks nothing. */
export async function readAdmission(db: Queryable): Promise<Admission> {
  return (await db.run<Admission & Record<string, unknown>>(READ))[0]!
}
