import type { Queryable } from '../../db/database.ts'
import { toStorableText } from '../../model/json.ts'
import { MAX_AUDIT_TEXT } from '../../model/limits.ts'
import { withoutSecrets, withoutSecretsIn } from '../../model/redact.ts'
import { insertAudit } from '../../store/insert-audit.ts'

export interface AuditEntry {
  /** Whose key it was, or the user of the process that changed the database itself. */
  readonly actor: string
  /** The key it was done with; none for library, command line and duties. */
  readonly keyId?: string | undefined
  /** Dotted words: `lane.change`, `key.create`. */
  readonly action: string
  /** What was changed: `lane interactive`, `job 17`, `key 3`. */
  readonly target?: string | undefined
  /** States, limits, names. Never secrets, inputs or results. */
  readonly before?: unknown
  readonly after?: unknown
  /** The code it was refused with. Without it, it was done. */
  readonly refused?: string | undefined
  readonly requestId?: string | undefined
  /** Why, in the words of whoever did it. */
  readonly reason?: string | undefined
}

/**
 * Writes down who did what.
 *
 * Call it with the transaction of the change, so that neither exists without the other. What was refused is written by
 * itself, since the transaction that refused it is undone.
 */
export async function audit(tx: Queryable, entry: AuditEntry): Promise<void> {
  await insertAudit(tx, {
    actor: text(entry.actor),
    keyId: entry.keyId ?? null,
    action: text(entry.action),
    target: entry.target === undefined ? null : text(entry.target),
    // Comments and reasons are the caller's own words.
    before: withoutSecretsIn(entry.before),
    after: withoutSecretsIn(entry.after),
    refused: entry.refused === undefined ? null : text(entry.refused),
    requestId: entry.requestId === undefined ? null : text(entry.requestId),
    reason: entry.reason === undefined ? null : text(entry.reason),
  })
}

/** Refused attempts name what the caller asked for, which may be no text that PostgreSQL stores. */
function text(given: string): string {
  return withoutSecrets(toStorableText(given, MAX_AUDIT_TEXT))
}
