import { type Queryable, statement } from '../db/database.ts'

/** What there is under the name of an owner. */
export interface NameUse extends Record<string, unknown> {
  /** A key that is good. */
  readonly live: boolean
  /** A key that has been revoked or has expired. */
  readonly past: boolean
  readonly jobs: boolean
  readonly schedules: boolean
}

const FIND = statement(
  'find_name_use',
  `select exists (select 1 from sluice.api_keys k where k.name = $1 and k.revoked_at is null
                    and (k.expires_at is null or k.expires_at > statement_timestamp())) as live,
          exists (select 1 from sluice.api_keys k where k.name = $1
                    and (k.revoked_at is not null or k.expires_at <= statement_timestamp())) as past,
          exists (select 1 from sluice.jobs d where d.submitted_by = $1 and d.parent_id is null) as jobs,
          exists (select 1 from sluice.schedules s where s.owner = $1) as schedules`,
)

export async function findNameUse(db: Queryable, name: string): Promise<NameUse> {
  return (await db.run<NameUse>(FIND, [name]))[0]!
}
