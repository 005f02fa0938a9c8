import { type Queryable, statement } from '../db/database.ts'

/** What was done to one of many. */
export interface AuditOfOne {
  readonly target: string
  readonly before: unknown
  readonly after: unknown
}

const INSERT = statement(
  'insert_audits',
  `insert into sluice.audit (actor, key_id, action, request_id, reason, target, before, after)
   select $1, $2, $3, $4, $6, g.target, g.before, g.after from jsonb_to_recordset($5) as g(target text, before jsonb, after jsonb)`,
)

/** Writes down what somebody did to many at once, a row for each. */
export async function insertAudits(
  db: Queryable,
  by: {
    readonly actor: string
    readonly keyId: string | undefined
    readonly requestId: string | undefined
    readonly reason: string | undefined
    readonly action: string
  },
  rows: readonly AuditOfOne[],
): Promise<void> {
  const { actor, keyId = null, action, requestId = null, reason = null } = by
  await db.run(INSERT, [actor, keyId, action, requestId, JSON.stringify(rows), reason])
}
