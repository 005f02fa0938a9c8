import { type Queryable, statement } from '../db/database.ts'
import type { AdmissionValues } from '../model/fields/admission.ts'

/** The limits that change, as they are stored; `null`: no limit. */
export interface AdmissionLimits extends Partial<AdmissionValues> {
  readonly maxQueued?: Readonly<Record<string, number | null>>
}

/** What files and programs say. */
export interface DeclaredAdmission extends AdmissionLimits {
  /** The depths come with the `uses` of their tasks, and go with them. */
  readonly implied?: boolean
}

/**
 * Whose word it is. An operator's stays until it is reset; a program's leaves alone what an operator has set; a default
 * leaves alone what anybody has said anything about.
 */
export type Authority = 'operator' | 'program' | 'default'

const CHANGE = statement(
  'change_admission',
  `select sluice.change_admission_v1($1::text::jsonb, $2, $3::text = 'operator', $3::text = 'default')`,
)

/** Changes the limits on what may enter. What is active is left alone. */
export async function changeAdmission(
  db: Queryable,
  change: DeclaredAdmission,
  by: string,
  authority: Authority,
): Promise<void> {
  await db.run(CHANGE, [JSON.stringify(change), by, authority])
}
