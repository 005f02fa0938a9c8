import type { Queryable } from '../../db/database.ts'
import { toStorableText } from '../../model/json.ts'
import { MAX_AUDIT_TEXT } from '../../model/limits.ts'
import { withoutSecrets, withoutSecretsIn } from '../../model/redact.ts'
import { insertAudit } from '../../store/insert-audit.ts'

export interface AuditEntry {
  /** The owner of the key, or the user of the process that changed the database directly. */
  readonly actor: string
  /** The key that was used. Absent for library, command line and duties. */
  readonly keyId?: string | undefined
  /** Dotted words: `lane.change`, `key.create`. */
  readonly action: string
  /** What was changed: `lane interactive`, `job 17`, `key 3`. */
  readonly target?: string | undefined
  /** States, limits, names. Never secrets, inputs or results. */
  readonly before?: unknown
  readonly after?: unknown
  /** The error code if the change was rejected. Absent if it was made. */
  readonly refused?: string | undefined
  readonly requestId?: string | undefined
  /** The reason that the caller gave. */
  readonly reason?: string | undefined
}

/**
 * Records who did what.
 *
 * Call it in the transaction of the change, so that neither exists without the other. A rejection is recorded
 * separately, because its transaction is rolled back.
 */
export async function audit(tx: Queryable, entry: AuditEntry): Promise<void> {
  await insertAudit(tx, {
    actor: text(entry.actor),
    keyId: entry.keyId ?? null,
    action: text(entry.action),
    target: entry.target === undefined ? null : text(entry.target),
    // Callers write comments and reasons, which may contain secrets.
    before: withoutSecretsIn(entry.before),
    after: withoutSecretsIn(entry.after),
    refused: entry.refused === undefined ? null : text(entry.refused),
    requestId: entry.requestId === undefined ? null : text(entry.requestId),
    reason: entry.reason === undefined ? null : text(entry.reason),
  })
}

/** Rejected requests name what the caller asked for, which may not be storable text. */
function text(given: string): string {
  return withoutSecrets(toStorableText(given, MAX_AUDIT_TEXT))
}
