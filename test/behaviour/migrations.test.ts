import { randomBytes } from 'node:crypto'
import pg from 'pg'
import { afterAll, beforeAll, beforeEach, expect, inject, onTestFinished, test } from 'vitest'
import { Database } from '../../src/db/database.ts'
import { loadFunctions } from '../../src/db/functions.ts'
import { checkSuitable, compatibleSinceOf, loadMigrations, migrate } from '../../src/db/migrate.ts'
import { sluice, task } from '../../src/index.ts'
import { describeSchema, type SchemaObject } from '../../src/store/describe-schema.ts'
import { useDatabase } from '../support/database.ts'
import { withUser } from '../support/global-setup.ts'
import { Fixture } from '../support/processes.ts'
import { until } from '../support/until.ts'

const database = useDatabase({ empty: true })
const newest = (await loadMigrations()).at(-1)!.version
const everything = newest + loadFunctions().length
const role = `owner_${randomBytes(4).toString('hex')}`

/** What one migration makes that nobody disturbs. */
let expected: SchemaObject[]

beforeAll(async () => {
  await migrate(database.url)
  expected = await schema()
})
beforeEach(() => database.admin('drop schema if exists sluice cascade'))
afterAll(async () => {
  const client = new pg.Client(inject('serverUrl'))
  await client.connect()
  await client.query(`drop role if exists ${role}`)
  await client.end()
})

test('twenty programs that start at once on an empty database bring the schema up to date once', async () => {
  const states = await Promise.all(Array.from({ length: 20 }, () => migrate(database.url)))

  expect(states.every(({ applied, available }) => applied === newest && available === newest)).toBe(true)
  expect(states.filter(({ ran }) => ran.length > 0)).toHaveLength(1)
  expect(await database.sql('select version from sluice.migrations order by version')).toEqual(
    (await loadMigrations()).map(({ version }) => ({ version })),
  )
  expect(await schema()).toEqual(expected)
  expect(await migrate(database.url)).toMatchObject({ ran: [] })
})

test('a program killed in the middle of a migration leaves nothing, and the one that waits does it all', async () => {
  const { release } = await blockMigration()
  const killed = new Fixture('../programs/open.mjs', database.url)
  onTestFinished(() => killed.kill())
  await haveToWait(1)
  const next = migrate(database.url)
  await haveToWait(2)

  await killed.kill()
  await release()

  expect((await next).ran).toHaveLength(everything)
  expect(await schema()).toEqual(expected)
})

test('a migration whose connection breaks fails as a whole and can be repeated', async () => {
  const { release } = await blockMigration()
  const broken = migrate(database.url)
  const refused = expect(broken).rejects.toMatchObject({ code: 'DATABASE_UNAVAILABLE' })
  await haveToWait(1)
  await database.sql(`select pg_terminate_backend(pid) from pg_stat_activity where pid = any ($1)`, [
    (await waiting()).map(({ pid }) => pid),
  ])
  await refused
  await release()

  expect(
    await database.sql(`select relname from pg_class where relnamespace = 'sluice'::regnamespace`),
  ).toEqual([])
  expect((await migrate(database.url)).ran).toHaveLength(everything)
})

test('starts on a newer schema that supports the program, and leaves it alone', async () => {
  await migrate(database.url)
  await pretendNewer({ compatibleSince: newest })
  const before = await records()

  expect(await migrate(database.url)).toEqual({
    ...{ applied: newest + 1, available: newest },
    ...{ ran: [], restored: [] },
  })
  for (const options of [{}, { migrate: false }]) {
    const infos: string[] = []
    const log = { debug() {}, warn() {}, error() {}, info: (_: object, text: string) => infos.push(text) }
    const app = await sluice({ database: database.url, log, ...options })
    await app.close()
    expect(infos).toEqual([
      `the schema is at version ${newest + 1}, newer than this program's ${newest}, and supports it: left unchanged`,
    ])
  }

  expect(await records()).toEqual(before)
})

test('refuses a newer schema that no longer supports the program, and leaves it alone', async () => {
  await migrate(database.url)
  await pretendNewer({ compatibleSince: newest + 1 })
  const before = await records()

  const refused = {
    code: 'DATABASE_UNSUITABLE',
    message: `the schema is at version ${newest + 1}, which supports programs from version ${newest + 1} on; this program has version ${newest}. Upgrade this program`,
    details: { applied: newest + 1, compatibleSince: newest + 1, available: newest },
  }
  await expect(migrate(database.url)).rejects.toMatchObject(refused)
  await expect(checkSuitable(database.url)).rejects.toMatchObject(refused)
  await expect(sluice({ database: database.url })).rejects.toMatchObject(refused)
  await expect(sluice({ database: database.url, migrate: false })).rejects.toMatchObject(refused)

  expect(await records()).toEqual(before)
})

test.each([
  ['leaves the schema alone', 0],
  ['is refused', 1],
])('a program that waits while a newer one upgrades the schema %s', async (_, above) => {
  await migrate(database.url)
  await changeFunction()
  const newer = new pg.Client(database.directUrl)
  await newer.connect()
  onTestFinished(() => newer.end())
  await newer.query('begin; select pg_advisory_xact_lock(1936485737, 0)')
  const waits = Promise.allSettled([migrate(database.url)])
  await haveToWait(1)

  await pretendNewer({ compatibleSince: newest + above })
  const before = await records()
  await newer.query('commit')

  const [outcome] = await waits
  expect(outcome).toMatchObject(
    above === 0
      ? { value: { applied: newest + 1, ran: [] } }
      : { reason: { code: 'DATABASE_UNSUITABLE', details: { compatibleSince: newest + 1 } } },
  )
  expect(await records()).toEqual(before)
})

test('replaces the functions that differ when a program of the same version starts', async () => {
  await migrate(database.url)
  const before = await records()
  await changeFunction()
  await database.sql(`insert into sluice.functions (name, hash) values ('submit/gone_v1', 'old')`)

  const app = await sluice({ database: database.url })
  await app.close()

  expect(await records()).toEqual(before)
  expect(await schema()).toEqual(expected)
})

test.each([
  ['a function is missing', 'drop function sluice.cycle_v1', 'dispatch/cycle_v1 is missing'],
  [
    'a body was changed',
    `do $do$ begin execute replace(pg_get_functiondef('sluice.expire_start_deadlines_v1'::regproc), 'begin', 'begin  '); end $do$`,
    'jobs/expire_start_deadlines_v1 differs',
  ],
  ['a view is missing', 'drop view sluice.misplaced', 'lanes/misplaced is missing'],
  ['a trigger is missing', 'drop trigger admit_worker on sluice.workers', 'fleet/admit_worker_v1 is missing'],
  [
    'a function in one expression is missing',
    'drop function sluice.up_since_v1',
    'recovery/up_since_v1 is missing',
  ],
  [
    'a function in one expression was changed',
    changed(`pg_get_functiondef('sluice.must_start_v1'::regproc)`, '00:00:01', '00:00:02'),
    'dispatch/must_start_v1 differs',
  ],
  [
    'a query in a function was changed',
    changed(`pg_get_functiondef('sluice.has_window_v1'::regproc)`, 'IS NOT NULL', 'IS NULL'),
    'dispatch/has_window_v1 differs',
  ],
  [
    'a view was changed',
    changed(
      `'create or replace view sluice.misplaced as ' || pg_get_viewdef('sluice.misplaced'::regclass)`,
      `'default'`,
      `'other'`,
    ),
    'lanes/misplaced differs',
  ],
  [
    'a setting of a function was dropped',
    'alter function sluice.steady_cycle_v1 reset plan_cache_mode',
    'dispatch/steady_cycle_v1 differs',
  ],
  [
    'a function was given another volatility',
    'alter function sluice.microseconds_v1 volatile',
    'dispatch/microseconds_v1 differs',
  ],
  [
    'a trigger was changed',
    'create or replace trigger admit_worker before update on sluice.workers for each row execute function sluice.admit_worker_v1()',
    'fleet/admit_worker_v1 differs',
  ],
  [
    'a trigger was disabled',
    'alter table sluice.workers disable trigger admit_worker',
    'fleet/admit_worker_v1 differs',
  ],
])('restores what this version had applied when %s, and says so', async (_, damage, found) => {
  await migrate(database.url)
  const before = await records()
  const name = found.split(' ')[0]
  await database.sql(damage)

  const refusal = {
    code: 'DATABASE_UNSUITABLE',
    message: `the schema is at version ${newest}, but not all of its functions are those of this program: ${found}. Run \`sluice migrate\``,
    details: found.endsWith('differs')
      ? { missing: [], different: [name] }
      : { missing: [name], different: [] },
  }
  await expect(sluice({ database: database.url, migrate: false })).rejects.toMatchObject(refusal)
  expect(await migrate(database.url, { dryRun: true })).toMatchObject({ ran: [name], restored: [name] })
  await expect(sluice({ database: database.url, migrate: false })).rejects.toMatchObject(refusal)

  const warnings: unknown[] = []
  const log = { debug() {}, info() {}, error() {}, warn: (...line: unknown[]) => warnings.push(line) }
  const app = await sluice({ database: database.url, log })
  await app.close()
  expect(warnings).toEqual([
    [{ functions: [name] }, 'functions of the schema were missing or had been changed; restored them'],
  ])
  expect(await records()).toEqual(before)
  expect(await schema()).toEqual(expected)
  await (await sluice({ database: database.url, migrate: false })).close()
})

test('finds nothing changed in a session with other settings', async () => {
  await migrate(database.url)
  const settings = {
    ...{ search_path: 'sluice', quote_all_identifiers: 'on', IntervalStyle: 'iso_8601' },
    ...{ bytea_output: 'escape', extra_float_digits: '-3', DateStyle: 'German', TimeZone: 'Asia/Tokyo' },
  }
  onTestFinished(async () => {
    await database.admin(`alter database ${database.name} reset all`)
  })
  for (const [name, value] of Object.entries(settings))
    await database.admin(`alter database ${database.name} set ${name} = '${value}'`)

  expect(await migrate(database.url)).toMatchObject({ ran: [] })
})

test('where another server has recorded what was applied, a program applies it again and calls nothing restored', async () => {
  await migrate(database.url)
  const before = await records()
  await database.sql(`update sluice.functions set kept = '1.14.16390.16391 ' || hash`)

  await (await sluice({ database: database.url, migrate: false })).close()
  const { ran, restored } = await migrate(database.url)
  expect(ran).toHaveLength(loadFunctions().length)
  expect(restored).toEqual([])

  expect(await records()).toEqual(before)
  expect(await migrate(database.url)).toMatchObject({ ran: [] })
})

test('where another server has recorded what was applied, a program still finds what is missing and whose body was changed', async () => {
  await migrate(database.url)
  await database.sql(`update sluice.functions set kept = '1.14.16390.16391 ' || hash`)
  await database.sql('drop view sluice.misplaced')
  await database.sql(
    changed(`pg_get_functiondef('sluice.expire_start_deadlines_v1'::regproc)`, 'begin', 'begin  '),
  )
  await expect(sluice({ database: database.url, migrate: false })).rejects.toMatchObject({
    details: { missing: ['lanes/misplaced'], different: ['jobs/expire_start_deadlines_v1'] },
  })
  expect((await migrate(database.url)).restored.toSorted()).toEqual([
    'jobs/expire_start_deadlines_v1',
    'lanes/misplaced',
  ])
})

test('a program with migrate: false rejects functions of another build, and names three of them', async () => {
  await migrate(database.url)
  await database.sql(
    `update sluice.functions set hash = 'changed' where name like 'access/%' or name like 'submit/submit%'`,
  )
  await database.sql('drop function sluice.create_first_key_v1')

  await expect(sluice({ database: database.url, migrate: false })).rejects.toMatchObject({
    code: 'DATABASE_UNSUITABLE',
    message: `the schema is at version ${newest}, but not all of its functions are those of this program: access/create_first_key_v1 is missing, submit/submit differs, submit/submit_keyed_any_v1 differs, 2 more. Run \`sluice migrate\``,
  })
})

test('knows each function, view and trigger that the files create', async () => {
  await migrate(database.url)
  const known = loadFunctions().flatMap(({ objects }) => objects.map(({ kind, name }) => `${kind} ${name}`))
  const [row] = await database.sql<{ found: string[] }>(
    `select array(
       select 'function ' || proname from pg_proc where pronamespace = 'sluice'::regnamespace union
       select 'view ' || relname from pg_class where relnamespace = 'sluice'::regnamespace and relkind = 'v' union
       select 'trigger ' || tgname from pg_trigger t join pg_class c on c.oid = t.tgrelid
        where c.relnamespace = 'sluice'::regnamespace and not t.tgisinternal) as found`,
  )
  expect(known.sort()).toEqual(row!.found.sort())
})

test('an upgrade with a function that cannot be applied leaves the database as it was, and can be repeated', async () => {
  await migrate(database.url)
  // All files count as changed. Those before expire_start_deadlines_v1 are applied, which is then refused.
  await database.sql(`update sluice.functions set hash = 'changed'`)
  await database.sql('drop function sluice.expire_start_deadlines_v1')
  await database.sql(UNCHANGEABLE)
  const before = await records()

  await expect(migrate(database.url)).rejects.toThrow('cannot change return type of existing function')
  expect(await records()).toEqual(before)

  await database.sql('drop function sluice.expire_start_deadlines_v1')
  expect((await migrate(database.url)).ran).toHaveLength(loadFunctions().length)
  expect(await schema()).toEqual(expected)
})

test('a function that cannot be applied takes the migrations before it back', async () => {
  await database.sql(`create schema sluice authorization ${await owner()}`)
  await database.sql(UNCHANGEABLE)
  const before = await schema()

  await expect(migrate(database.url)).rejects.toThrow('cannot change return type of existing function')
  expect(await schema()).toEqual(before)

  await database.sql('drop function sluice.expire_start_deadlines_v1')
  expect((await migrate(database.url)).ran).toHaveLength(everything)
  expect(await schema()).toEqual(expected)
})

test('an upgrade that waits for a table keeps nobody else waiting, and names the session that holds it', async () => {
  await migrate(database.url)
  await database.sql(`update sluice.functions set hash = 'changed' where name = 'jobs/jobs'`)
  const reader = new pg.Client({ connectionString: database.directUrl, application_name: 'backup' })
  await reader.connect()
  onTestFinished(() => reader.end())
  await reader.query('begin; lock table sluice.queue in access share mode')
  const [session] = (await reader.query('select pg_backend_pid() as pid')).rows

  const waits: unknown[] = []
  const upgrade = migrate(database.url, { onWait: (lock) => waits.push(lock) })
  for (let n = 0; n < 3; n++) {
    await haveToWait(1)
    await database.sql('select from sluice.queue, sluice.job_data for update of queue')
  }
  await until(async () => waits.length > 0, 'the upgrade to report its wait')
  await until(async () => (await waiting()).length === 1, 'the upgrade to try again')
  await reader.query('commit')

  expect((await upgrade).ran).toEqual(['jobs/jobs'])
  expect(waits).toEqual([
    expect.objectContaining({ kind: 'table', name: 'queue', pid: session.pid, application: 'backup' }),
  ])
})

test('an upgrade that an administrator cancels while it waits for a table fails as a whole', async () => {
  await migrate(database.url)
  await database.sql(`update sluice.functions set hash = 'changed' where name = 'jobs/jobs'`)
  const reader = new pg.Client(database.directUrl)
  await reader.connect()
  onTestFinished(() => reader.end())
  await reader.query('begin; lock table sluice.queue in access share mode')

  const upgrade = migrate(database.url)
  const refused = expect(upgrade).rejects.toMatchObject({ code: 'DATABASE_UNAVAILABLE' })
  let cancelled = false
  const done = upgrade.catch(() => (cancelled = true))
  await until(async () => {
    if (!cancelled)
      await database.admin('select pg_cancel_backend(pid) from unnest($1::integer[]) pid', [
        (await waiting()).map(({ pid }) => pid),
      ])
    return cancelled
  }, 'the cancel to end the upgrade')
  await done
  await refused
  expect(await database.sql(`select hash from sluice.functions where name = 'jobs/jobs'`)).toEqual([
    { hash: 'changed' },
  ])
})

test('a migration that drops something says since when programs are compatible', async () => {
  for (const { name, sql, version, compatibleSince } of await loadMigrations()) {
    expect(compatibleSince, name).toBeLessThanOrEqual(version)
    if (/^\s*drop |compatible.?since/im.test(sql)) expect(sql, name).toMatch(/^-- compatible since \d+\n/)
  }
})

test('reads since when programs are compatible from the first line of a migration only', () => {
  expect(compatibleSinceOf('-- compatible since 8\ndrop function sluice.old_v1;\n')).toBe(8)
  expect(compatibleSinceOf('-- Copied from another one:\n-- compatible since 8\n')).toBe(1)
  expect(compatibleSinceOf('-- compatible since 8 or later\n')).toBe(1)
})

test('a program with migrate: false rejects a schema that is too old', async () => {
  await expect(sluice({ database: database.url, migrate: false })).rejects.toMatchObject({
    code: 'DATABASE_UNSUITABLE',
    message: `the schema is at version 0, but this program needs ${newest}: run \`sluice migrate\``,
  })
})

test('a role that owns the database and may nothing else migrates it and works in it', async () => {
  await database.admin(`create role ${role} login nosuperuser nocreatedb nocreaterole`)
  const before = await owner()
  await database.admin(`alter database ${database.name} owner to ${role}`)
  onTestFinished(async () => {
    await database.admin('drop schema if exists sluice cascade')
    await database.admin(`alter database ${database.name} owner to ${before}`)
  })
  const double = task({ name: 'double', run: (input: { n: number }) => input.n * 2 })
  const app = await sluice({ database: withUser(database.directUrl, role), tasks: [double] })
  onTestFinished(() => app.close())
  await app.work()
  expect(await (await app.submit(double, { n: 4 })).result()).toBe(8)
  const owners = await database.sql(`select distinct pg_get_userbyid(relowner) as name from pg_class
    where relnamespace = 'sluice'::regnamespace`)
  expect(owners).toEqual([{ name: role }])
})

test('explains to a role that may not create a schema what it needs', async () => {
  await database.admin(`create role ${role}_guest login`)
  onTestFinished(async () => {
    await database.admin(`drop role ${role}_guest`)
  })
  await expect(migrate(withUser(database.directUrl, `${role}_guest`))).rejects.toMatchObject({
    code: 'DATABASE_UNSUITABLE',
    message: expect.stringContaining(`grant create on database "${database.name}" to "${role}_guest"`),
  })
})

/** A function that the file of the same name cannot replace. */
const UNCHANGEABLE =
  "create function sluice.expire_start_deadlines_v1(p_limit integer, p_ids bigint[] default '{}') returns text language sql return null"

/** A statement that changes what another one creates. */
function changed(create: string, from: string, to: string): string {
  const [text, part, other] = [create, `'${from.replaceAll("'", "''")}'`, `'${to.replaceAll("'", "''")}'`]
  return `do $do$ begin
    if position(${part} in ${text}) = 0 then raise exception 'found nothing to change'; end if;
    execute replace(${text}, ${part}, ${other});
  end $do$`
}

/** What a newer release leaves: one more migration, and a function that this program does not know so. */
async function pretendNewer({ compatibleSince }: { compatibleSince: number }): Promise<void> {
  await changeFunction()
  await database.sql(
    `insert into sluice.migrations (version, name, compatible_since) values ($1, 'from the future', $2)`,
    [newest + 1, compatibleSince],
  )
}

async function changeFunction(): Promise<void> {
  await database.sql(`update sluice.functions set hash = 'changed' where name = 'submit/rank_v1'`)
  await database.sql(`create or replace function sluice.rank_v1(p_priority integer, p_ageing_ms integer, p_since timestamptz)
    returns integer language sql immutable return 0`)
}

/** What has been applied, and what the functions are now. */
function records(): Promise<unknown[]> {
  return database.sql(
    `select 'migration' as kind, version::text as name, compatible_since::text as text from sluice.migrations
     union all select 'function', name, concat_ws(' ', hash, kept) from sluice.functions
     union all select 'body', proname, md5(pg_get_functiondef(oid)) from pg_proc where pronamespace = 'sluice'::regnamespace
     order by 1, 2, 3`,
  )
}

/** Keeps any migration waiting in the middle of its first file, where it makes the table of lanes. */
async function blockMigration(): Promise<{ release(): Promise<void> }> {
  await database.sql(`create schema sluice authorization ${await owner()}`)
  const blocker = new pg.Client(database.directUrl)
  await blocker.connect()
  onTestFinished(() => blocker.end())
  await blocker.query('begin; create table sluice.lanes ()')
  return {
    async release() {
      await blocker.query('rollback')
    },
  }
}

async function owner(): Promise<string> {
  const [row] = await database.sql<{ name: string }>(
    'select pg_get_userbyid(datdba) as name from pg_database where datname = current_database()',
  )
  return row!.name
}

function waiting(): Promise<{ pid: number }[]> {
  return database.sql(
    `select pid from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'
        and pid <> pg_backend_pid() order by query_start`,
  )
}

async function haveToWait(count: number): Promise<void> {
  await until(async () => (await waiting()).length === count, `${count} migrations to wait`)
}

async function schema(): Promise<SchemaObject[]> {
  const db = new Database({ url: database.directUrl, maxConnections: 1, applicationName: 'schema' })
  try {
    return await describeSchema(db)
  } finally {
    await db.close()
  }
}

test("a schema named sluice that is somebody else's is refused with its tables, and left alone", async () => {
  for (const table of ['customers (id integer)', 'migrations (id integer)']) {
    await database.admin('drop schema if exists sluice cascade')
    await database.sql('create schema sluice')
    await database.sql(`create table sluice.${table}`)
    const refusal = {
      code: 'DATABASE_UNSUITABLE',
      message: `this database has a schema named sluice that is not Sluice's: it contains ${table.split(' ')[0]}. Use another database, or rename that schema: alter schema sluice rename to other`,
    }
    await expect(migrate(database.url)).rejects.toMatchObject(refusal)
    await expect(sluice({ database: database.url })).rejects.toMatchObject(refusal)
  }
  await database.admin('drop schema sluice cascade')
  await database.sql('create schema sluice')
  expect(await migrate(database.url)).toMatchObject({ applied: newest })
})

test.each([
  ['had no table of functions', 'drop table sluice.functions'],
  ['did not record what the server keeps', 'alter table sluice.functions drop column kept'],
  ['did not say which programs it supports', 'alter table sluice.migrations drop column compatible_since'],
  ['had all jobs in one table', 'drop view sluice.jobs cascade; create table sluice.jobs (id bigint)'],
])('refuses a database of a pre-release version, which %s, and leaves it alone', async (_, older) => {
  await migrate(database.url)
  await database.sql(older)
  const refusal = {
    code: 'DATABASE_UNSUITABLE',
    message:
      'this database was created by a pre-release version of Sluice, which cannot be migrated. Use a new database, or delete the old schema with all its jobs: drop schema sluice cascade',
  }
  await expect(migrate(database.url)).rejects.toMatchObject(refusal)
  await expect(sluice({ database: database.url })).rejects.toMatchObject(refusal)
  await expect(sluice({ database: database.url, migrate: false })).rejects.toMatchObject(refusal)
})
