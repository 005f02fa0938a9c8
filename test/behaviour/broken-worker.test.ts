import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { expect, onTestFinished, test } from 'vitest'
import { loadConfig } from '../../src/config/load-config.ts'
import { checkAttention } from '../../src/engine/diagnosis/attention.ts'
import { remoteWorker, type Sluice, sluice, task } from '../../src/index.ts'
import { useDatabase } from '../support/database.ts'
import { startTestServer } from '../support/http-server.ts'
import { plantDeadline } from '../support/state/jobs.ts'
import { workerKey } from '../support/through-server.ts'
import { until } from '../support/until.ts'

const database = useDatabase()

const log = { debug() {}, info() {}, warn() {}, error() {} }
const PROGRAM = '#!/bin/sh\necho \'"well"\'\n'

async function makeConfig(yaml: string) {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-broken-'))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  await writeFile(join(folder, 'sluice.yaml'), yaml)
  await writeFile(join(folder, 'works'), PROGRAM, { mode: 0o755 })
  return { folder, config: await loadConfig({ folder }) }
}

const missing = expect.stringContaining('no-such-program')

/** The worker has tried three times and has withdrawn the task. */
async function expectWithdrawn(app: Sluice, id: string, worker: string): Promise<void> {
  await until(
    async () => (await app.listWorkers()).find(({ name }) => name === worker)?.withdrawn.length === 1,
    'the task to be withdrawn',
  )
  await until(async () => (await app.getJob(id)).status === 'queued', 'the last try to be handed back')
  const [seen] = (await app.listWorkers()).filter(({ name }) => name === worker)
  expect(seen).toMatchObject({ draining: false, broken: null, withdrawn: [{ task: 'hello', why: missing }] })
  const waitMs = seen!.withdrawn[0]!.retryAt.getTime() - Date.now()
  expect(waitMs).toBeGreaterThan(20_000)
  expect(waitMs).toBeLessThanOrEqual(60_000)
}

test('a job whose program cannot be started keeps its start deadline', async () => {
  const { config } = await makeConfig('tasks: { hello: { exec: [./no-such-program] } }')
  const app = await sluice({ database: database.url, config, log })
  onTestFinished(() => app.close())
  const { id } = await app.submit('hello', null, { deadline: '1h' })
  const { deadlineAt } = await app.getJob(id)
  await app.work({ name: 'w0' })
  await expectWithdrawn(app, id, 'w0')
  expect(await app.getJob(id)).toMatchObject({ deadlineAt, failures: 0 })
  await plantDeadline(database.sql, [id], -1)
  await expect(app.job(id).result({ timeout: '60s' })).rejects.toMatchObject({
    code: 'JOB_FAILED',
    error: expect.stringMatching(/^capacity: not started by its deadline/),
  })
})

test('a program that is missing withdraws its task from the worker, which goes on with all others', async () => {
  const { config, folder } = await makeConfig(
    'tasks: { hello: { exec: [./no-such-program] }, other: { exec: [./works] } }',
  )
  const app = await sluice({ database: database.url, config, log })
  onTestFinished(() => app.close())
  await app.work({ name: 'w1' })

  const { id } = await app.submit('hello', null)
  await expectWithdrawn(app, id, 'w1')
  // Others of the task wait with it; other tasks run.
  const later = await app.submit('hello', null)
  const other = await app.submit('other', null)
  await app.job(other.id).result({ timeout: '20s' })
  expect(await app.getJob(later.id)).toMatchObject({ status: 'queued', attempt: 0 })

  const said = /^worker w1 cannot start task hello: .*no-such-program.*; retries (at 20\d\d-.*Z|in \d+m?s?)$/
  expect(await app.why(id)).toMatchObject({
    wait: { kind: 'withdrawn' },
    reason: expect.stringMatching(said),
  })
  const attempts = await app.listAttempts(id)
  expect(attempts).toHaveLength(3)
  for (const attempt of attempts)
    expect(attempt).toMatchObject({ ending: 'returned', error: expect.stringMatching(said) })
  expect(await app.getJob(id)).toMatchObject({ status: 'queued', failures: 0 })
  const lines = (await app.readLogs(id)).map(({ line }) => line)
  expect(lines).toEqual(Array(3).fill(expect.stringMatching(said)))
  const findings = await checkAttention({ db: app.services.db })
  expect(findings.find(({ check }) => check === 'task hello')).toMatchObject({
    level: 'problem',
    found: expect.stringContaining('No other worker takes its jobs'),
  })

  // Another worker has the program: it takes the jobs, and doctor only warns.
  await writeFile(join(folder, 'no-such-program'), PROGRAM, { mode: 0o755 })
  const second = await sluice({ database: database.url, config, log })
  onTestFinished(() => second.close())
  await second.work({ name: 'w2' })
  await Promise.all([id, later.id].map((each) => app.job(each).result({ timeout: '20s' })))
  const now = await checkAttention({ db: app.services.db })
  expect(now.find(({ check }) => check === 'task hello')).toMatchObject({ level: 'warning' })
})

test('a module that cannot be loaded withdraws its task, behind a server too', async () => {
  const { folder } = await makeConfig('{}')
  const module = join(folder, 'task.mjs')
  await writeFile(module, "import './no-such-program.mjs'\n")
  const hello = task({
    name: 'hello',
    execution: 'process',
    module: pathToFileURL(module).href,
    run: () => null,
  })
  const inline = task({ name: 'inline', run: () => 'well' })
  const server = await startTestServer(database.url)
  onTestFinished(() => server.stop())
  const key = await workerKey(server.app)
  const worker = await remoteWorker({
    ...{ server: server.url, key, log, name: 'w4', capacity: 2 },
    tasks: [hello, inline],
  })
  onTestFinished(() => worker.close({ now: true }))

  const { id } = await server.app.submit('hello', null)
  await expectWithdrawn(server.app, id, 'w4')
  const other = await server.app.submit('inline', null)
  expect(await server.app.job(other.id).result({ timeout: '20s' })).toBe('well')
  expect((await server.app.why(id)).wait.kind).toBe('withdrawn')
  expect(await server.app.getJob(id)).toMatchObject({ status: 'queued', failures: 0 })
})

test('a workdir that cannot be made withdraws the worker, with why, until somebody brings it back', async () => {
  const { config, folder } = await makeConfig('tasks: { foldered: { exec: [./works] } }')
  const app = await sluice({ database: database.url, config, log })
  onTestFinished(() => app.close())
  const workdirRoot = join(folder, 'workdirs')
  await app.work({ name: 'broken', workdirRoot })
  await rm(workdirRoot, { recursive: true })
  await writeFile(workdirRoot, 'in the way')

  const { id } = await app.submit('foldered', null)

  await until(async () => (await app.listWorkers())[0]?.draining === true, 'the worker to be withdrawn')
  const why = expect.stringContaining('workdir')
  expect((await app.listWorkers())[0]).toMatchObject({ name: 'broken', broken: why, withdrawn: [] })
  await until(async () => (await app.getJob(id)).status === 'queued', 'the last try to be handed back')
  expect((await app.why(id)).reason).toMatch(
    /^every worker that runs task foldered is draining or broken: worker broken: .*workdir/,
  )
  const findings = await checkAttention({ db: app.services.db })
  expect(findings.find(({ check }) => check === 'worker broken')).toMatchObject({
    level: 'problem',
    found: why,
    advice: expect.stringContaining('undrain broken'),
  })
  const attempts = await app.listAttempts(id)
  expect(attempts).toHaveLength(3)
  for (const attempt of attempts) expect(attempt).toMatchObject({ ending: 'returned', error: why })

  await rm(workdirRoot)
  await mkdir(workdirRoot, { mode: 0o700 })
  await app.drainWorker('broken', false)
  await app.job(id).result({ timeout: '20s' })
  expect((await app.listWorkers())[0]).toMatchObject({ draining: false, broken: null })
})

test('an initialiser that fails when a pool process is replaced withdraws the worker, until it works again', async () => {
  const { folder } = await makeConfig('{}')
  const module = join(folder, 'pooled.mjs')
  const broken = join(folder, 'broken')
  await writeFile(
    module,
    `import { existsSync } from 'node:fs'
     export function initialise() {
       if (existsSync(${JSON.stringify(broken)})) throw new Error('the model file is missing')
     }
     export const pooled = { name: 'pooled', run: () => process.pid }\n`,
  )
  const { href } = pathToFileURL(module)
  const pooled = task({ name: 'pooled', execution: 'process', module: href, run: (_: null) => 0 })
  const app = await sluice({ database: database.url, tasks: [pooled], log })
  onTestFinished(() => app.close())
  await app.work({
    name: 'warm',
    // A process does one job, and another takes its place.
    pool: { size: 1, maxJobs: 1, initialiser: { module: href, export: 'initialise' } },
  })
  await writeFile(broken, '')
  const first = await (await app.submit(pooled, null)).result()

  const worker = async () => (await app.listWorkers()).find(({ name }) => name === 'warm')
  const seen = await until(async () => {
    const now = await worker()
    return now?.broken !== null && now
  }, 'the worker to be withdrawn')
  const why = expect.stringContaining('the model file is missing')
  expect(seen).toMatchObject({ broken: why, draining: true, withdrawn: [] })
  const waiting = await app.submit(pooled, null)
  const findings = await checkAttention({ db: app.services.db })
  expect(findings.find(({ check }) => check === 'worker warm')).toMatchObject({
    level: 'problem',
    found: why,
    advice: expect.stringContaining('undrain warm'),
  })
  expect((await app.why(waiting.id)).reason).toMatch(
    /^every worker that runs task pooled is draining or broken: worker warm: .*the model file is missing/,
  )

  await rm(broken)
  await app.drainWorker('warm', false)
  expect(await waiting.result({ timeout: '60s' })).not.toBe(first)
  expect(await worker()).toMatchObject({ broken: null, draining: false })
})
