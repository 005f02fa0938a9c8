import type { Queryable } from '../../db/database.ts'
import { findAttention } from '../find-attention.ts'
import { type Finding, ok } from '../finding.ts'

/** What needs attention by the rules that Now and `/readyz` follow. */
export async function checkAttention({ db }: { db: Queryable }): Promise<Finding[]> {
  const { findings: found } = await findAttention(db)
  if (found.length === 0) return [ok('attention', 'nothing needs attention')]
  return found.map(({ subject, severity, text, advice }) => ({
    check: subject,
    level: severity,
    found: text,
    advice,
  }))
}
