import { readFile } from 'node:fs/promises'
import { afterAll, expect, test } from 'vitest'
import { Database } from '../../src/db/database.ts'
import { schemaDrift, schemaText } from '../../src/engine/diagnosis/schema-drift.ts'
import { describeSchema } from '../../src/store/describe-schema.ts'
import { useDatabase } from '../support/database.ts'

const database = useDatabase({ asMigrated: true })
const db = new Database({ url: database.url, maxConnections: 2, applicationName: 'schema-dump' })
afterAll(() => db.close())

test('sql/schema.sql is what the migrations make (else: npm run schema)', async () => {
  const file = await readFile(new URL('../../sql/schema.sql', import.meta.url), 'utf8')
  expect(schemaText(await describeSchema(db))).toBe(file)
})

test('a migrated database has not drifted, whatever the search path of its users', async () => {
  expect(await schemaDrift(db)).toEqual({ missing: [], extra: [], changed: [] })
  await database.sql(`alter database ${database.name} set search_path = sluice, public`)
  const other = new Database({ url: database.url, maxConnections: 1, applicationName: 'other-path' })
  expect(await schemaDrift(other)).toEqual({ missing: [], extra: [], changed: [] })
  await other.close()
})

test('drift is named: what is missing, what nobody asked for, and what is different', async () => {
  await database.sql('drop index sluice.queue_deadline')
  await database.sql('create table sluice.mine (id integer)')
  await database.sql('alter table sluice.lanes alter column poll_ms set default 1000')
  await database.sql(`create or replace function sluice.rank_v1(p_priority integer, p_ageing_ms integer, p_since timestamptz)
    returns integer language sql immutable return 0`)
  expect(await schemaDrift(db)).toEqual({
    missing: ['index sluice.queue_deadline'],
    extra: ['table sluice.mine'],
    changed: [
      'table sluice.lanes',
      'function sluice.rank_v1(p_priority integer, p_ageing_ms integer, p_since timestamp with time zone)',
    ],
  })
})

test('a database without the schema misses everything', async () => {
  await database.sql('drop schema sluice cascade')
  const { missing, extra, changed } = await schemaDrift(db)
  expect(missing).toContain('table sluice.job_data')
  expect(missing).toContain('view sluice.jobs')
  expect([...extra, ...changed]).toEqual([])
})
