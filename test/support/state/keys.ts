import type { Sql } from '../database.ts'

/** Lets the database refuse every new key, until the returned function is called. */
export async function refuseKeys(sql: Sql): Promise<() => Promise<void>> {
  await sql('alter table sluice.api_keys add constraint no_new_keys check (false) not valid')
  return async () => void (await sql('alter table sluice.api_keys drop constraint no_new_keys'))
}
