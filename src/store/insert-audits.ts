import { type Queryable, statement } from '../db/database.ts'

/** What was done to one of many. */
export interface AuditOfOne {
  readonly target: string
  readonly before: unknown
  readonly after: unknown
}

const INSERT = statement(
  'insert_audits',
  `insert into sluice.audit (actor, key_id, action, request_id, target, before, after)
   select $1, $2, $3, $4, g.target, g.before, g.after from jsonb_to_recordset($5) as g(target text, before jsonb, after jsonb)`,
)

/** Writes down what somebody did to many at once, a row for each. */
export async function insertAudits(
  db: Queryable,
  by: {
    readonly actor: string
    readonly keyId: string | undefined
    readonly requestId: string | undefined
    readonly action: string
  },
  rows: readonly AuditOfOne[],
): Promise<void> {
  await db.run(INSERT, [by.actor, by.keyId ?? null, by.action, by.requestId ?? null, JSON.stringify(rows)])
}
