import type { Queryable } from '../../db/database.ts'
import type { Attention } from '../../model/attention.ts'
import { listLanes } from '../../store/list-lanes.ts'
import { findAttention } from '../views/find-attention.ts'
import { type Finding, ok } from './finding.ts'

/**
 * Reports the findings that Now and `/readyz` also show.
 *
 * @param patient `tell` receives what was found, so that other checks do not repeat it.
 */
export async function checkAttention(patient: {
  db: Queryable
  tell?: (found: readonly Attention[]) => void
}): Promise<Finding[]> {
  const { findings: found } = await findAttention(patient.db)
  patient.tell?.(found)
  if (found.length === 0) return [ok('attention', 'nothing needs attention')]
  const lanes = found.some(({ rule }) => rule === 'lane_paused') ? await listLanes(patient.db) : []
  return found.map(({ rule, subject, severity, text, advice }) => {
    const paused = lanes.find(({ name, enabled }) => !enabled && subject === `lane ${name}`)
    const by = rule === 'lane_paused' && paused !== undefined ? `; paused by ${paused.updatedBy}` : ''
    return { check: subject, level: severity, found: `${text}${by}`, advice }
  })
}
