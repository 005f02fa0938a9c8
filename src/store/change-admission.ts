import { type Queryable, statement } from '../db/database.ts'

/** `null` is a value: no limit. What is left out stays as it is. */
export interface AdmissionLimits {
  readonly maxActive?: number | null
  readonly maxScheduled?: number | null
  readonly maxPerOwner?: number | null
  readonly maxQueued?: Readonly<Record<string, number | null>>
  /** In milliseconds, for jobs whose submission and task say nothing about it. */
  readonly deadline?: number | null
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
