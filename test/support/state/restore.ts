import { migrate } from '../../../src/db/migrate.ts'
import { sqlState } from '../../../src/db/sqlstate.ts'
import type { Sql } from '../database.ts'

/** What a dump has of keys and roles. */
export interface Dump {
  readonly keys: unknown
}

export async function takeDump(sql: Sql): Promise<Dump> {
  const [row] = await sql<{ keys: unknown }>('select jsonb_agg(to_jsonb(k)) as keys from sluice.api_keys k')
  return { keys: row!.keys }
}

/** As `pg_restore --clean` begins: everything is dropped, whoever uses it. */
export async function dropSchema(sql: Sql): Promise<void> {
  for (;;) {
    try {
      await sql('drop schema sluice cascade')
      return
    } catch (error) {
      // Programs that live on take locks in another order.
      if (sqlState(error) !== '40P01') throw error
    }
  }
}

/** As it goes on: tables and functions are created again, empty. */
export async function recreateSchema(url: string): Promise<void> {
  await migrate(url)
}

/** As it ends: the rows are there again. */
export async function loadDump(sql: Sql, { keys }: Dump): Promise<void> {
  await sql(
    `insert into sluice.api_keys overriding system value
     select * from jsonb_populate_recordset(null::sluice.api_keys, $1::jsonb)`,
    [JSON.stringify(keys)],
  )
}
