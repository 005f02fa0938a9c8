import type { Queryable } from '../../db/database.ts'
import { lockedTables } from '../../model/attention.ts'
import { findTableLocks } from '../../store/find-table-locks.ts'
import { type Finding, ok } from './finding.ts'

/**
 * Tables that another session holds locked. `closed`: they cannot even be read, so further checks would wait as well.
 */
export async function checkLocks(db: Queryable): Promise<{ findings: Finding[]; closed: boolean }> {
  const locks = await findTableLocks(db)
  const closed = locks.some(({ blocksReading }) => blocksReading)
  const findings: Finding[] = lockedTables(locks).map(({ subject, severity, text, advice }) => ({
    check: subject,
    level: severity,
    found: text,
    advice,
  }))
  if (closed)
    findings.push({
      check: 'tables',
      level: 'note',
      found: 'its content was not checked, because the query would wait for the lock',
      advice: 'run sluice doctor again once the lock is released',
    })
  return { findings: findings.length > 0 ? findings : [ok('locks', 'no table is locked')], closed }
}
