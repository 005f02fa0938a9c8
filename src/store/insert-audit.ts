import { type Queryable, statement } from '../db/database.ts'

export interface AuditRow {
  readonly actor: string
  readonly keyId: string | null
  readonly action: string
  readonly target: string | null
  readonly before: unknown
  readonly after: unknown
  readonly refused: string | null
  readonly requestId: string | null
  readonly reason: string | null
}

const INSERT = statement(
  'insert_audit',
  `insert into sluice.audit (actor, key_id, action, target, before, after, refused, request_id, reason)
   values ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
)

export async function insertAudit(db: Queryable, row: AuditRow): Promise<void> {
  const json = (value: unknown) => (value === undefined || value === null ? null : JSON.stringify(value))
  await db.run(INSERT, [
    row.actor,
    row.keyId,
    row.action,
    row.target,
    json(row.before),
    json(row.after),
    row.refused,
    row.requestId,
    row.reason,
  ])
}
