import type { Queryable } from '../db/database.ts'
import { declareDeadline } from '../store/declare-deadline.ts'
import { DEFAULT_CEILING, declareAdmission } from './admission.ts'

/** What waits longer than this for its start is no longer wanted. */
const DEFAULT_DEADLINE_MS = 4 * 3_600_000

/**
 * What the first start of a server sets where nobody has said anything: a ceiling on active jobs, and a deadline for
 * their start. Strangers may submit now; a program that only uses the library needs neither.
 */
export async function declareServerDefaults(db: Queryable, by: string): Promise<void> {
  await declareAdmission(db, { maxActive: DEFAULT_CEILING }, by, 'default')
  await declareDeadline(db, DEFAULT_DEADLINE_MS)
}
