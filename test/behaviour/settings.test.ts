import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { expect, inject, test } from 'vitest'
import { openEmbedded } from '../../src/db/embedded/embedded.ts'
import { sluice } from '../../src/index.ts'
import { BUDGET_FIELDS } from '../../src/model/fields/budget.ts'
import { unknownVariables } from '../../src/model/settings.ts'
import { useApps } from '../support/apps.ts'
import { useDatabase } from '../support/database.ts'

const database = useDatabase()
const apps = useApps(database)

test('what operators set by program is in the audit, as over HTTP; what is refused changes nothing and leaves no line', async () => {
  const fleet = { pools: { audited: {} } }
  const app = await apps.open({ budgets: { told: 1 }, fleet, actor: 'olga' })
  await app.setBudget('told', { capacity: 4, quantum: 2 })
  await expect(app.setBudget('told', { limits: { gpu0: 1 } })).rejects.toThrow('has no devices')
  await expect(app.setBudget('untold', { capacity: 1 })).rejects.toMatchObject({ code: 'BUDGET_NOT_FOUND' })
  await app.resetBudget('told')
  await app.removeBudget('told')
  await app.setLane('default', { slots: 7 })
  await app.resetLane('default')
  await app.setPool('audited', { max: 9 })
  await app.resetPool('audited')
  await app.setAdmission({ maxActive: 1000 })
  await app.resetAdmission()
  const { entries } = await app.access.readAudit({ actor: 'olga' })
  const lines = entries.map(({ action, target, before, after }) => [action, target, before, after]).reverse()
  const has = (fields: object) => expect.objectContaining(fields)
  expect(lines).toEqual([
    [
      'budget.change',
      'budget told',
      has({ capacity: 1, quantum: BUDGET_FIELDS.quantum.default }),
      has({ capacity: 4, quantum: 2 }),
    ],
    ['budget.reset', 'budget told', has({ capacity: 4 }), has({ capacity: 1 })],
    ['budget.delete', 'budget told', has({ capacity: 1 }), null],
    ['lane.change', 'lane default', has({ slots: null }), has({ slots: 7 })],
    ['lane.reset', 'lane default', has({ slots: 7 }), has({ slots: null })],
    ['pool.change', 'pool audited', has({ max: 3 }), has({ max: 9 })],
    ['pool.reset', 'pool audited', has({ max: 9 }), has({ max: 3 })],
    ['admission.change', 'admission', has({ maxActive: null }), has({ maxActive: 1000 })],
    ['admission.reset', 'admission', has({ maxActive: 1000 }), has({ maxActive: null })],
  ])
})

test('a stale time that is not greater than twice the heartbeat is refused at start, with what to change', async () => {
  await expect(apps.open({ heartbeat: '5s', stale: '10s' })).rejects.toMatchObject({
    code: 'INVALID_CONFIG',
    message: expect.stringContaining(
      'stale must be greater than twice the heartbeat, but stale is 10s (option stale) and heartbeat is 5s ' +
        '(option heartbeat); set option stale to more than 10s, or option heartbeat to less than 5s',
    ),
  })
  await expect(apps.open({ lanes: { hasty: { stale: '9s' } } })).rejects.toMatchObject({
    message: expect.stringContaining(
      'stale is 9s (option lanes.hasty.stale) and heartbeat is 5s (the default); ' +
        'set option lanes.hasty.stale to more than 10s, or heartbeat (SLUICE_HEARTBEAT) to less than 4s500ms',
    ),
  })
  await expect(apps.open({ heartbeat: '8s' })).rejects.toMatchObject({
    message: expect.stringContaining('stale is 15s (the default) and heartbeat is 8s (option heartbeat)'),
  })
  expect(await database.sql(`select 1 from sluice.lanes where name = 'hasty'`)).toEqual([])
})

test('it is refused as well when another program or an operator has set the other half', async () => {
  const first = await apps.open({ lanes: { slow: { slots: 1, stale: '16s' } } })
  await expect(apps.open({ heartbeat: '7s', stale: '20s' })).resolves.toBeDefined()
  // The heartbeat is one setting for all: this program brings a longer one than lane slow allows.
  await expect(apps.open({ heartbeat: '9s', stale: '20s' })).rejects.toMatchObject({
    code: 'INVALID_CONFIG',
    message:
      'stale must be greater than twice the heartbeat, which is 9000 ms: raise stale of slow (16000 ms) above 18000 ms, or lower the heartbeat',
  })
  // Nothing of it was stored: others start as before.
  expect(
    await database.sql(`select value::integer as value from sluice.settings where name = 'heartbeat_ms'`),
  ).toEqual([{ value: 7000 }])
  await apps.open({})
  await apps.open({ heartbeat: '5s' })

  for (const [stale, message] of [
    [10_000, 'stale: 10000 ms must be greater than twice the heartbeat (5000 ms): set it above 10000 ms'],
    [1, 'stale: 1 ms must be greater than twice the heartbeat (5000 ms)'],
  ] as const) {
    await expect(first.setLane('slow', { stale })).rejects.toMatchObject({
      code: 'INVALID_ARGUMENT',
      message: expect.stringContaining(message),
    })
  }
  expect(await first.setLane('slow', { stale: 10_001 })).toMatchObject({ staleMs: 10_001 })
})

test('the environment is read, and its mistakes are named', async () => {
  const environment: Record<string, string> = {
    SLUICE_HEARTBEAT: '2s',
    SLUICE_STALE: '30s',
    SLUICE_LANE_INTERACTIVE_SLOTS: '9',
    SLUICE_RETENTION: '3d',
  }
  Object.assign(process.env, environment)
  try {
    const app = await apps.open({})
    expect((await app.listLanes()).find((lane) => lane.name === 'interactive')).toMatchObject({
      slots: 9,
      staleMs: 30_000,
    })
    expect(
      await database.sql(
        `select name, value::integer as value from sluice.settings where name in ('heartbeat_ms', 'retention_ms') order by name`,
      ),
    ).toEqual([
      { name: 'heartbeat_ms', value: 2000 },
      { name: 'retention_ms', value: 259_200_000 },
    ])
    process.env.SLUICE_STALE = 'soon'
    process.env.SLUICE_CYCLE_MAX = '0'
    process.env.SLUICE_LANE_INTERACTIVE_SLOTS = '-1'
    const refused = apps.open({})
    await expect(refused).rejects.toMatchObject({ code: 'INVALID_CONFIG' })
    for (const name of ['SLUICE_STALE', 'SLUICE_CYCLE_MAX', 'SLUICE_LANE_INTERACTIVE_SLOTS'])
      await expect(refused).rejects.toThrow(name)
  } finally {
    for (const name of [...Object.keys(environment), 'SLUICE_CYCLE_MAX']) delete process.env[name]
  }
})

test('warns once of a variable that looks like one of Sluice and has no effect', async () => {
  process.env.SLUICE_TEAM = 'blue'
  try {
    await apps.open({})
    await apps.open({})
    const said = apps.logged.filter(({ fields }) => 'variable' in fields)
    expect(said).toEqual([
      {
        level: 'warn',
        fields: { variable: 'SLUICE_TEAM' },
        message:
          'SLUICE_TEAM is not a variable of Sluice and has no effect. Unset it or, if another program reads it, rename it',
      },
    ])
  } finally {
    delete process.env.SLUICE_TEAM
  }
})

test('knows every variable that its own tests, benchmarks and scripts read', async () => {
  const read: Record<string, string> = {}
  for (const folder of ['test', 'bench', 'scripts', 'examples', 'src'])
    for (const file of await readdir(new URL(`../../${folder}/`, import.meta.url), { recursive: true })) {
      if (!/\.(ts|tsx|mjs)$/.test(file) || file.includes('node_modules')) continue
      const text = await readFile(new URL(`../../${folder}/${file}`, import.meta.url), 'utf8')
      for (const [, name] of text.matchAll(/\benv\.(SLUICE_[A-Z_]+)/g)) read[name!] = '1'
    }
  delete read.SLUICE_TEAM
  expect(Object.keys(read).length).toBeGreaterThan(20)
  expect(unknownVariables(read)).toEqual([])
})

test('a database that is read-only, or isolates by default in another way, is refused with the setting', async () => {
  const name = `unfit_${database.name}`
  const server = new pg.Client(inject('serverUrl'))
  await server.connect()
  // A pooler's sessions keep the settings they began with.
  const url = database.directUrl.replace(database.name, name)
  try {
    await server.query(`create database ${name}`)
    await server.query(`alter database ${name} set default_transaction_read_only = on`)
    await expect(apps.open({ database: url })).rejects.toMatchObject({
      code: 'DATABASE_UNSUITABLE',
      message:
        'the database is read-only: connect to the primary, and set default_transaction_read_only = off',
    })
    await server.query(`alter database ${name} reset default_transaction_read_only`)
    await server.query(`alter database ${name} set default_transaction_isolation = 'serializable'`)
    await expect(apps.open({ database: url })).rejects.toMatchObject({
      code: 'DATABASE_UNSUITABLE',
      message: expect.stringContaining(
        `default_transaction_isolation is serializable: set it to 'read committed'`,
      ),
    })
    const { rows } = await server.query(
      `select count(*)::integer as n from pg_stat_activity where datname = $1`,
      [name],
    )
    expect(rows[0].n, 'connections left').toBe(0)
  } finally {
    await server.query(`drop database if exists ${name} with (force)`)
    await server.end()
  }
})

test('fsync = off is refused: an accepted job could be lost', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-fsync-'))
  const server = await openEmbedded({ dataFolder: join(folder, 'data'), settings: { fsync: 'off' } })
  try {
    await expect(sluice({ database: server.url })).rejects.toMatchObject({
      code: 'DATABASE_UNSUITABLE',
      message: 'fsync is off, so accepted jobs could be lost: set fsync = on in postgresql.conf and reload',
    })
  } finally {
    await server.release()
    await rm(folder, { recursive: true, force: true })
  }
})

test('reports an unreachable database within a moment', async () => {
  await expect(sluice({ database: 'postgres://nobody@127.0.0.1:1/none' })).rejects.toMatchObject({
    code: 'DATABASE_UNAVAILABLE',
    message: expect.stringMatching(/^cannot connect to PostgreSQL: .*127\.0\.0\.1:1/),
  })
})
