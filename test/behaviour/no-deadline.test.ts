import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { beforeAll, expect, test } from 'vitest'
import { type LoadedConfig, loadConfig } from '../../src/config/load-config.ts'
import { declareServerDefaults } from '../../src/engine/operate/server-defaults.ts'
import { type Sluice, task } from '../../src/index.ts'
import { useApps } from '../support/apps.ts'
import { useDatabase } from '../support/database.ts'
import { temporaryFolder } from '../support/embedded.ts'
import { readTree } from '../support/trees.ts'
import { until } from '../support/until.ts'

// What `deadline: none` means where the first start of a server has given all jobs 4 hours to start.

const database = useDatabase()
const apps = useApps(database)
const HOURS = 3_600_000

const plain = task({ name: 'plain', run: (_: unknown) => null })
const patient = task({ name: 'patient', deadline: 'none', run: (_: unknown) => null })
const hurried = task({ name: 'hurried', deadline: '1h', run: (_: unknown) => null })

async function configOf(yaml: string): Promise<LoadedConfig> {
  const folder = await temporaryFolder()
  await writeFile(join(folder, 'sluice.yaml'), yaml)
  return loadConfig({ folder })
}

beforeAll(async () => {
  const app = await apps.open({ tasks: [plain, patient, hurried] })
  await startServerOn(app)
})

/** What a start of a server does to the database. */
async function startServerOn(app: Sluice): Promise<string | undefined> {
  const { calls, settings } = app.services
  return declareServerDefaults(calls, settings, 'server')
}

/** How long the job may wait for its start; null: for ever. */
async function hoursOf(app: Sluice, id: string): Promise<number | null> {
  const { deadlineAt, readyAt } = await app.getJob(id)
  return deadlineAt === null ? null : (deadlineAt.getTime() - readyAt.getTime()) / HOURS
}

test('a task with deadline none has none, also where the database has a default', async () => {
  const app = await apps.open({ tasks: [plain, patient, hurried] })
  const hours = async (name: string) => hoursOf(app, (await app.submit(name, 1)).id)
  expect(await hours('plain')).toBe(4)
  expect(await hours('patient')).toBeNull()
  expect(await hours('hurried')).toBe(1)
})

test('deadline none in the file holds for tasks that say nothing, and can be given to one task alone', async () => {
  const all = await apps.open({ tasks: [plain, hurried], config: await configOf('deadline: none') })
  expect(await hoursOf(all, (await all.submit(plain, 1)).id)).toBeNull()
  expect(await hoursOf(all, (await all.submit(hurried, 1)).id)).toBe(1)
  const one = await apps.open({
    tasks: [plain, hurried],
    config: await configOf('tasks: { hurried: { deadline: none } }'),
  })
  expect(await hoursOf(one, (await one.submit(plain, 1)).id)).toBe(4)
  expect(await hoursOf(one, (await one.submit(hurried, 1)).id)).toBeNull()
})

test('a submission with deadline none has none, by library and by SQL', async () => {
  const app = await apps.open({ tasks: [plain, hurried] })
  expect(await hoursOf(app, (await app.submit(hurried, 1, { deadline: 'none' })).id)).toBeNull()
  expect(await hoursOf(app, (await app.submit(plain, 1, { deadline: null })).id)).toBeNull()
  const [row] = await database.sql<{ id: string }>(`select sluice.submit('hurried', deadline => '0') as id`)
  expect(await hoursOf(app, row!.id)).toBeNull()
})

test('a schedule with deadline none submits jobs without one', async () => {
  const app = await apps.open({ tasks: [hurried] })
  const options = { task: 'hurried', cron: '0 0 1 1 *', deadline: 'none' } as const
  expect(await app.createSchedule('yearly', options)).toMatchObject({ deadlineMs: 0 })
  expect(await hoursOf(app, (await app.fireSchedule('yearly')).id)).toBeNull()
})

test('a workflow with deadline none passes it to its steps, unless their tasks have one', async () => {
  const definition = {
    steps: {
      part: { steps: { inner: { task: 'plain' } } },
      own: { task: 'hurried' },
      none: { task: 'hurried', deadline: 'none' },
    },
  }
  const app = await apps.open({ tasks: [plain, hurried], workflows: [{ name: 'whole', definition }] })
  app.startDuties()
  const job = await app.submit('whole', {}, { deadline: 'none' })
  const steps = await until(async () => {
    const leaves = (await readTree(database.sql, job.id)).filter(({ kind }) => kind === null)
    return leaves.length === 3 ? leaves : undefined
  }, 'all steps to wait')
  const hours = Object.fromEntries(
    await Promise.all(steps.map(async ({ id, step }) => [step, await hoursOf(app, id)])),
  )
  expect(hours).toEqual({ inner: null, own: 1, none: null })
  await app.cancel(job.id)
  await expect(job.result()).rejects.toThrow()
})

test('the default of the database is read and changed while programs run', async () => {
  const app = await apps.open({ tasks: [plain] })
  const hours = async () => hoursOf(app, (await app.submit(plain, 1)).id)
  expect(await app.admission()).toMatchObject({
    deadlineMs: 4 * HOURS,
    defaultSet: ['deadline', 'maxActive'],
  })
  expect(await app.setAdmission({ deadline: '2h' })).toMatchObject({
    deadlineMs: 2 * HOURS,
    operatorSet: ['deadline'],
    defaultSet: ['maxActive'],
  })
  expect(await hours()).toBe(2)
  await app.setAdmission({ deadline: 'none' })
  expect(await hours()).toBeNull()
  // A server that starts again leaves alone what an operator has set.
  expect(await startServerOn(app)).toBeUndefined()
  expect(await hours()).toBeNull()
  expect(await app.resetAdmission()).toMatchObject({
    deadlineMs: 4 * HOURS,
    operatorSet: [],
    defaultSet: ['deadline', 'maxActive'],
  })
})

test('a server whose file says deadline none takes back the default for everybody', async () => {
  const server = await apps.open({ config: await configOf('deadline: none') })
  expect(await startServerOn(server)).toBeUndefined()
  expect(await server.admission()).toMatchObject({ deadlineMs: null, defaultSet: ['maxActive'] })
  const app = await apps.open({ tasks: [plain] })
  expect(await hoursOf(app, (await app.submit(plain, 1)).id)).toBeNull()
})
