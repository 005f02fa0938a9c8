import type { Queryable } from '../../db/database.ts'
import { needsAttention } from '../../model/attention.ts'
import { readMoment } from '../../store/read-moment.ts'
import { type Finding, ok } from '../finding.ts'

/** What needs attention by the rules that Now and `/readyz` follow. */
export async function checkAttention({ db }: { db: Queryable }): Promise<Finding[]> {
  const found = needsAttention(await readMoment(db))
  if (found.length === 0) return [ok('attention', 'nothing needs attention')]
  return found.map(({ subject, severity, text, advice }) => ({
    check: subject,
    level: severity,
    found: text,
    advice,
  }))
}
