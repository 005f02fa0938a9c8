import { type Queryable, statement } from '../db/database.ts'

// Skips what another server is marking: a minute is what it is worth, not a wait.
const MARK = statement(
  'mark_keys_used',
  `update sluice.api_keys set last_used_at = statement_timestamp()
    where id in (select id from sluice.api_keys
                  where id = any ($1::bigint[]) and (last_used_at is null or last_used_at < statement_timestamp() - interval '1 minute')
                  order by id for no key update skip locked)`,
)

/** Writes down that keys were used, at most once a minute for each, whoever asks. */
export async function markKeysUsed(db: Queryable, ids: readonly string[]): Promise<void> {
  await db.run(MARK, [ids])
}
