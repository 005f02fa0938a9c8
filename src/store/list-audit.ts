import { type Queryable, statement } from '../db/database.ts'

export interface AuditView {
  readonly id: string
  readonly at: Date
  readonly actor: string
  readonly keyId: string | null
  readonly action: string
  readonly target: string | null
  readonly before: unknown
  readonly after: unknown
  /** The code it was refused with; `null`: it was done. */
  readonly refused: string | null
  readonly requestId: string | null
  /** Why, in the words of whoever did it. */
  readonly reason: string | null
}

export interface AuditFilter {
  readonly actor?: string | undefined
  /** An action, or with a `.` at its end all that begin with it: `key.` */
  readonly action?: string | undefined
  readonly target?: string | undefined
  readonly keyId?: string | undefined
  readonly requestId?: string | undefined
  readonly refused?: boolean | undefined
  readonly since?: Date | undefined
  readonly until?: Date | undefined
}

// Looks at no more than $10 rows, along the primary key. There is no index for the filters: each would cost every
// submission a write. What was looked at and did not fit is behind the reader all the same.
const LIST = statement(
  'list_audit',
  `with seen as materialized (
     select * from sluice.audit where id < $1 order by id desc limit $10
   ), found as (
     select * from seen
      where ($2::text is null or actor = $2)
        and ($3::text is null or action = $3 or (right($3, 1) = '.' and starts_with(action, $3)))
        and ($4::text is null or target = $4)
        and ($5::bigint is null or key_id = $5)
        and ($6::text is null or request_id = $6)
        and ($7::boolean is null or (refused is not null) = $7)
        and ($8::timestamptz is null or at >= $8)
        and ($9::timestamptz is null or at < $9)
      order by id desc limit $11
   )
   select f.id, f.at, f.actor, f.key_id as "keyId", f.action, f.target, f.before, f.after, f.refused, f.request_id as "requestId", f.reason,
          e.last, e.looked, e.oldest
     from (select min(id) as last, count(*)::integer as looked, min(at) as oldest from seen) e
     left join found f on true order by f.id desc`,
)

export interface AuditLook {
  readonly entries: readonly AuditView[]
  /** The last one looked at; `null` when nothing is left. */
  readonly last: string | null
  readonly looked: number
  /** When the oldest of those looked at was written. */
  readonly oldest: Date | null
}

/** The newest entries before an id that fit a filter, at most `limit` among the next `window`. */
export async function listAudit(
  db: Queryable,
  before: string,
  filter: AuditFilter,
  window: number,
  limit: number,
): Promise<AuditLook> {
  type Found = AuditView & { last: string | null; looked: number; oldest: Date | null } & Record<
      string,
      unknown
    >
  const { actor, action, target, keyId, requestId, refused, since, until } = filter
  const rows = await db.run<Found>(LIST, [
    before,
    actor ?? null,
    action ?? null,
    target ?? null,
    keyId ?? null,
    requestId ?? null,
    refused ?? null,
    since ?? null,
    until ?? null,
    window,
    limit,
  ])
  const { last, looked, oldest } = rows[0]!
  const entries = rows.flatMap(({ last: _, looked: __, oldest: ___, ...entry }) =>
    entry.id === null ? [] : [entry],
  )
  return { entries, last, looked, oldest }
}
