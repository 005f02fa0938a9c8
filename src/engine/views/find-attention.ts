import type { Queryable } from '../../db/database.ts'
import { type Attention, needsAttention } from '../../model/attention.ts'
import { findBlockingSessions } from '../../store/find-blocking-sessions.ts'
import { findLaneLocks } from '../../store/find-lane-locks.ts'
import { readSnapshot, type SystemSnapshot } from '../../store/read-snapshot.ts'
import { findFanOutFailures } from '../workflows/fan-out-failure.ts'

/** Of many fan-outs that will fail these are named. */
const MOST_NAMED = 20

/** How the system stands, and what of it needs attention. Now, `doctor` and `/readyz` all read this. */
export async function findAttention(
  db: Queryable,
): Promise<{ readonly moment: SystemSnapshot; readonly findings: Attention[] }> {
  const moment = await readSnapshot(db)
  const { failing } = moment.concerns
  const why = await findFanOutFailures(db, failing)
  const doomed = failing
    .flatMap(({ id, root, step }) => (why.has(id) ? [{ id, root, step, why: why.get(id)! }] : []))
    .slice(0, MOST_NAMED)
  const laneLocks = await findLaneLocks(db)
  const blocking = await findBlockingSessions(db)
  return {
    moment,
    findings: needsAttention({ ...moment, laneLocks, blocking, concerns: { ...moment.concerns, doomed } }),
  }
}
