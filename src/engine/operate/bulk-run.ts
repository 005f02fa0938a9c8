import type { Queryable } from '../../db/database.ts'
import { withoutSecretsIn } from '../../model/redact.ts'
import type { Reruns } from '../../model/reruns.ts'
import type { JobSearch } from '../../store/find-jobs.ts'
import { type AuditOfOne, insertAudits } from '../../store/insert-audits.ts'

/** Who does it, for the audit. */
export interface BulkAuthor {
  readonly name: string
  readonly keyId?: string | undefined
  readonly requestId?: string | undefined
  /** The reason that the author gave. */
  readonly reason?: string | undefined
}

export interface Refusal {
  readonly id: string
  readonly code: string
  readonly detail: string
}

export interface BulkAnswer {
  /** Jobs found in a state that the action is for. */
  readonly matched: number
  readonly changed: number
  /** The first hundred that could not be changed. */
  readonly refused: readonly Refusal[]
  /** `null`: all is done. */
  readonly next: string | null
  /** Of a retry: what runs again, or would in a dry run. */
  readonly reruns?: Reruns
}

/** A bulk action that has been checked. */
export interface BulkRun {
  readonly search: JobSearch
  readonly author: BulkAuthor
  readonly dryRun: boolean
  readonly cursor: string | undefined
  /** When to start nothing new, by the clock of `performance`. */
  readonly end: number
}

/** How many of the jobs that could not be changed are named. */
export const MAX_REFUSED = 100

/** One audit entry for each changed job. */
export async function writeDown(
  tx: Queryable,
  { name, keyId, requestId, reason }: BulkAuthor,
  action: string,
  rows: readonly AuditOfOne[],
): Promise<void> {
  if (rows.length > 0)
    await insertAudits(tx, { actor: name, keyId, requestId, reason, action }, withoutSecretsIn(rows))
}
