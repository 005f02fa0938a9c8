import type { Queryable } from '../../db/database.ts'
import { formatDuration } from '../../model/duration.ts'
import { findOldestTransaction } from '../../store/find-oldest-transaction.ts'
import { type Finding, ok } from './finding.ts'

const WARN_MS = 5 * 60_000
const NOTE_MS = 30_000

/** Rows that died after the oldest open transaction began cannot be removed. */
export async function checkTransactions({ db }: { db: Queryable }): Promise<Finding[]> {
  const oldest = await findOldestTransaction(db)
  if (oldest === undefined || oldest.ageMs < NOTE_MS) {
    return [ok('oldest transaction', oldest === undefined ? 'none is open' : 'younger than 30s')]
  }
  const age = formatDuration(Math.round(oldest.ageMs / 1000) * 1000)
  const prepared = oldest.kind === 'prepared'
  const who = prepared
    ? `prepared transaction ${oldest.id} of ${oldest.user}`
    : `process ${oldest.id} (${[oldest.application, oldest.user, oldest.state].filter((part) => part !== '').join(', ')})`
  return [
    {
      check: 'oldest transaction',
      level: oldest.ageMs >= WARN_MS ? 'warning' : 'note',
      found: `open for ${age}: ${who}; rows that died since then cannot be removed`,
      advice: prepared
        ? `commit prepared or rollback prepared '${oldest.id}'`
        : `end it where it was started, or run: select pg_terminate_backend(${oldest.id})`,
    },
  ]
}
