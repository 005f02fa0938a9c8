import { readFile } from 'node:fs/promises'
import pg from 'pg'
import type { Sql } from '../database.ts'

/** Lets tests write to the view `sluice.jobs` of a migrated database, as its owner. */
export async function allowPlanting(url: string): Promise<void> {
  const text = await readFile(new URL('planting.sql', import.meta.url), 'utf8')
  const client = new pg.Client(url)
  await client.connect()
  try {
    await client.query(text)
  } finally {
    await client.end()
  }
}

/** One statement on the view `sluice.jobs` of a database whose schema has to be as the migrations made it afterwards. */
export async function plantOnce(
  { url, sql }: { readonly url: string; readonly sql: Sql },
  text: string,
  values: unknown[] = [],
): Promise<void> {
  await allowPlanting(url)
  await sql(text, values)
  await forbidPlanting(sql)
}

/** Takes that back: the schema is as the migrations made it. */
export async function forbidPlanting(sql: Sql): Promise<void> {
  await sql('drop schema planting cascade')
}
