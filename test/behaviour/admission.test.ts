import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
import { afterEach, describe, expect, onTestFinished, test } from 'vitest'
import { hasCode, type Sluice, SluiceError, task } from '../../src/index.ts'
import { useApps } from '../support/apps.ts'
import { useDatabase } from '../support/database.ts'
import { Gate } from '../support/gate.ts'
import { withProducer } from '../support/producer.ts'
import { until } from '../support/until.ts'
import { useCommitChecker } from '../support/watched-commits.ts'

const database = useDatabase()
const commits = useCommitChecker(database)
const apps = useApps(database)

const idle = task({ name: 'idle', run: (_: unknown) => null })
const other = task({ name: 'other', run: (_: unknown) => null })

/** A program that submits, with what earlier tests left gone. */
async function open(limits?: Parameters<Sluice['setAdmission']>[0]): Promise<Sluice> {
  const app = await apps.open({ tasks: [idle, other], lanes: { default: { poll: '50ms' } } })
  if (limits !== undefined) await app.setAdmission(limits)
  return app
}

afterEach(async () => {
  const app = await apps.open({ publish: false })
  const { maxQueued } = await app.admission()
  const none = Object.fromEntries(Object.keys(maxQueued).map((name) => [name, null]))
  await app.setAdmission({ maxActive: null, maxQueued: none })
  await database.sql(`update sluice.admission set operator_set = '{}', declared = '{}'`)
  for (const { id } of await waiting()) await app.cancel(id)
})

const waiting = () =>
  database.sql<{ id: string; input: unknown }>(
    `select id, input from sluice.jobs where parent_id is null and state < 'running' order by id`,
  )

/** How many of many submissions were let in; the others must have been refused for lack of room. */
async function admitted(attempts: Promise<unknown>[]): Promise<number> {
  const settled = await Promise.allSettled(attempts)
  const refused = settled.filter((each) => each.status === 'rejected').map(({ reason }) => reason)
  expect(refused.filter((error) => !hasCode(error, 'ADMISSION_REJECTED') && error.code !== 'SL007')).toEqual(
    [],
  )
  return settled.length - refused.length
}

const active = async (): Promise<number> => {
  const [row] = await database.sql<{ n: number }>(
    `select count(*)::integer as n from sluice.jobs where parent_id is null and state < 'completed'`,
  )
  return row!.n
}

async function inTransaction<T>(
  work: (client: pg.Client) => Promise<T>,
  begin = 'begin',
  url = database.url,
): Promise<T> {
  const client = new pg.Client(url)
  await client.connect()
  try {
    await client.query(begin)
    const result = await work(client)
    await client.query('commit')
    return result
  } finally {
    await client.end()
  }
}

describe('the ceiling', () => {
  test('is none until somebody sets it', async () => {
    const app = await open()
    expect(await app.admission()).toMatchObject({ maxActive: null, maxQueued: {}, active: null })
    await app.submitMany(idle, Array(50).fill(null))
    expect(await database.sql('select 1 from sluice.charges')).toEqual([])
  })

  test('refuses what goes beyond it, says how much there is, and when to come back', async () => {
    const app = await open({ maxActive: 3 })
    await app.submitMany(idle, [1, 2, 3])
    const error: SluiceError = await app.submit(idle, 4).catch((thrown) => thrown)
    expect(error).toMatchObject({
      code: 'ADMISSION_REJECTED',
      status: 429,
      details: { ceiling: 3, active: 3 },
    })
    expect(error.retryAfter).toBeGreaterThanOrEqual(1)
    expect(Number.isInteger(error.retryAfter)).toBe(true)
    expect(error.details.retryAfter).toBe(error.retryAfter)
    expect(new SluiceError('CLOSED', 'closed').retryAfter).toBeUndefined()
    expect(await active()).toBe(3)
  })

  test('is never exceeded by submissions that race from several programs, clients and languages', async () => {
    const programs = await Promise.all([open({ maxActive: 40 }), open(), open()])
    const pool = new pg.Pool({ connectionString: database.url, max: 6 })
    const attempts = Array.from({ length: 60 }, (_, i) => {
      const app = programs[i % 3]!
      return [
        app.submit(idle, i),
        app.submit(other, i, { key: `racing ${i}` }),
        app.submitMany(idle, [i, i, i]),
        inTransaction((client) => app.submit(idle, i, { transaction: client })),
        pool.query('select sluice.submit($1, $2)', ['idle', JSON.stringify(i)]),
      ]
    }).flat()
    expect(await admitted(attempts)).toBeGreaterThan(10)
    await pool.end()
    const stored = await active()
    expect(stored).toBeLessThanOrEqual(40)
    expect(stored).toBeGreaterThan(37)
    const { seen } = await commits.catchUp()
    expect(seen.admissions).toBeGreaterThan(0)
  })

  test('is never exceeded by programs that submit while workers drain', { timeout: 240_000 }, async () => {
    const app = await open({ maxActive: 25, maxQueued: { idle: 20 } })
    const program = fileURLToPath(new URL('../support/programs/racer.mjs', import.meta.url))
    const racers = Array.from({ length: 3 }, () =>
      fork(program, [JSON.stringify({ database: database.url, task: 'idle' })]),
    )
    onTestFinished(() => racers.forEach((racer) => void racer.kill()))
    const reports = racers.map(async (racer) => {
      const [report] = await Promise.race([
        once(racer, 'message'),
        once(racer, 'exit').then(([code]) => Promise.reject(new Error(`a racer ended with ${code}`))),
      ])
      return report as { admitted: number; refused: number }
    })
    await until(async () => (await active()) === 20, 'the queue to be full')
    const completed = async () =>
      (await database.sql(`select 1 from sluice.jobs where state = 'completed'`)).length
    const earlier = await completed()
    await app.work({ capacity: 4 })
    await until(async () => (await completed()) >= earlier + 200, 'many to have been let in')
    for (const racer of racers) racer.send('enough')
    const told = await Promise.all(reports)
    const sum = (field: 'admitted' | 'refused') => told.reduce((total, each) => total + each[field], 0)
    expect(sum('admitted')).toBeGreaterThanOrEqual(200)
    expect(sum('refused')).toBeGreaterThan(0)
    await until(async () => (await active()) === 0, 'all to end')
    const { violations } = await commits.catchUp()
    expect(violations).toEqual([])
  })

  test('lets new jobs in as others end, though endings tell it nothing', async () => {
    const app = await open({ maxActive: 10 })
    await app.work({ capacity: 5 })
    for (let n = 0; n < 100; n++) {
      await until(() => app.submit(idle, n).then(() => true, refusedIsFalse), `room for job ${n}`)
    }
    await until(async () => (await active()) === 0, 'all to end')
    expect(await app.admission()).toMatchObject({ maxActive: 10, active: 0 })
  })

  test('merges single submissions and refuses only those that do not fit', async () => {
    const app = await open({ maxActive: 7 })
    expect(await admitted(Array.from({ length: 100 }, (_, i) => app.submit(idle, i)))).toBe(7)
    expect(await active()).toBe(7)
  })

  test('takes a bulk submission whole or not at all', async () => {
    const app = await open({ maxActive: 5 })
    await app.submitMany(idle, [1, 2, 3])
    await expect(app.submitMany(idle, [4, 5, 6])).rejects.toMatchObject({ code: 'ADMISSION_REJECTED' })
    expect(await active()).toBe(3)
    await app.submitMany(idle, [4, 5])
  })

  test('lets a submission attach to an active job, and refuses the same key once it would be a new one', async () => {
    const app = await open({ maxActive: 1 })
    const first = await app.submit(idle, 1, { key: 'one' })
    expect(await app.submit(idle, 1, { key: 'one' })).toMatchObject({ id: first.id, attached: true })
    await expect(app.submit(idle, 2, { key: 'one' })).rejects.toMatchObject({ code: 'KEY_CONFLICT' })
    await expect(app.submit(idle, 1, { key: 'two' })).rejects.toMatchObject({ code: 'ADMISSION_REJECTED' })
  })

  test('counts a workflow once, and never refuses its children', async () => {
    const steps = { fan: { task: 'idle', with_items: '${{ range(10) }}', with: '${{ item }}' } }
    const app = await apps.open({
      tasks: [idle],
      workflows: [{ name: 'two-steps', definition: { steps } }],
    })
    await app.setAdmission({ maxActive: 2 })
    const runs = [await app.submit('two-steps', null), await app.submit('two-steps', null)]
    await expect(app.submit('two-steps', null)).rejects.toMatchObject({ code: 'ADMISSION_REJECTED' })
    await expect(app.submit(idle, null)).rejects.toMatchObject({ code: 'ADMISSION_REJECTED' })
    await app.work({ capacity: 4 })
    await Promise.all(runs.map((run) => run.result()))
    await app.submit(idle, null)
  })

  test('counts a job that runs again as a new one', async () => {
    const app = await open()
    const job = await app.submit(idle, 1)
    await app.cancel(job.id)
    await app.setAdmission({ maxActive: 1 })
    const held = await app.submit(idle, 2)
    await expect(app.rerun(job.id)).rejects.toMatchObject({
      code: 'ADMISSION_REJECTED',
      details: { active: 1 },
    })
    expect((await app.getJob(job.id)).status).toBe('cancelled')
    await app.cancel(held.id)
    await app.rerun(job.id)
    await expect(app.submit(idle, 3)).rejects.toMatchObject({ code: 'ADMISSION_REJECTED' })
  })

  test('counts a workflow that runs again', async () => {
    const failing = task({
      name: 'failing',
      retry: { attempts: 1 },
      run: () => Promise.reject(new Error('no')),
    })
    const app = await apps.open({
      tasks: [failing, idle],
      workflows: [{ name: 'fails', definition: { steps: { one: { task: 'failing' } } } }],
    })
    await app.work()
    const run = await app.submit('fails', null)
    await expect(run.result()).rejects.toMatchObject({ code: 'JOB_FAILED' })
    await app.stopWorking()
    await app.setAdmission({ maxActive: 1 })
    const held = await app.submit(idle, 1)
    await expect(app.retry(run.id, { failed: true })).rejects.toMatchObject({ code: 'ADMISSION_REJECTED' })
    await app.cancel(held.id)
    await app.retry(run.id, { failed: true })
    await expect(app.submit(idle, 2)).rejects.toMatchObject({ code: 'ADMISSION_REJECTED' })
    await app.cancel(run.id)
    await app.work()
    await until(async () => (await app.getJob(run.id)).status === 'cancelled', 'the workflow to stop')
  })

  test('set below what is active stops nothing, and lets nothing in until there is room', async () => {
    const app = await open()
    const jobs = await app.submitMany(idle, [1, 2, 3, 4])
    await app.setAdmission({ maxActive: 2 })
    expect(await app.admission()).toMatchObject({ maxActive: 2, active: 4, operatorSet: ['maxActive'] })
    await expect(app.submit(idle, 5)).rejects.toMatchObject({ details: { ceiling: 2, active: 4 } })
    for (const { id } of jobs.slice(0, 3)) await app.cancel(id)
    await app.submit(idle, 5)
    expect(await active()).toBe(2)
  })

  test('counts what a transaction stored that began before it and ends after it', async () => {
    const app = await open()
    const client = new pg.Client(database.url)
    await client.connect()
    await client.query('begin')
    await client.query(`select sluice.submit('idle', '1')`)
    await app.setAdmission({ maxActive: 2 })
    await app.submit(idle, 2)
    await client.query('commit')
    await client.end()
    await expect(app.submit(idle, 3)).rejects.toMatchObject({ details: { active: 2 } })
    await app.setAdmission({ maxActive: 3 })
    await app.submit(idle, 3)
    await expect(app.submit(idle, 4)).rejects.toMatchObject({ details: { active: 3 } })
  })
})

const refusedIsFalse = (error: unknown) => {
  if (hasCode(error, 'ADMISSION_REJECTED')) return false
  throw error
}

describe("a caller's transaction", () => {
  test('is charged when it commits, so that one left open keeps nobody out', async () => {
    const app = await open({ maxActive: 1 })
    const late = inTransaction(async (client) => {
      await app.submit(idle, 'late', { transaction: client })
      // While it is open, others take the last place.
      await app.submit(idle, 'first')
    })
    await expect(late).rejects.toMatchObject({ code: 'SL007' })
    expect((await waiting()).map(({ input }) => input)).toEqual(['first'])
  })

  test('is charged for nothing when it is rolled back, as a whole or to a savepoint', async () => {
    const app = await open({ maxActive: 2 })
    await inTransaction(async (client) => {
      await client.query('savepoint here')
      await client.query(`select sluice.submit('idle'), sluice.submit('idle')`)
      await client.query('rollback to here')
      await client.query(`select sluice.submit('idle')`)
    })
    await inTransaction(async (client) => {
      await client.query(`select sluice.submit('idle')`)
      await client.query('rollback')
      await client.query('begin')
    })
    expect(await active()).toBe(1)
    await app.submit(idle, 2)
    await expect(app.submit(idle, 3)).rejects.toMatchObject({ code: 'ADMISSION_REJECTED' })
  })

  test('with a fixed snapshot fails to serialize when others were let in since, and succeeds when run again', async () => {
    const app = await open({ maxActive: 5 })
    const attempt = (between: () => Promise<unknown>) =>
      inTransaction(async (client) => {
        await client.query(`select sluice.submit('idle')`)
        await between()
      }, 'begin isolation level repeatable read')
    await expect(attempt(() => app.submit(idle, 1))).rejects.toMatchObject({ code: '40001' })
    await attempt(async () => {})
    expect(await active()).toBe(2)
    await app.setAdmission({ maxActive: null })
    await expect(attempt(() => app.setAdmission({ maxActive: 2 }))).rejects.toMatchObject({ code: '40001' })
    await expect(attempt(async () => {})).rejects.toMatchObject({ code: 'SL007' })
  })
})

test('a role that may only submit is held to the ceiling, and cannot raise it', async () => {
  const app = await open({ maxActive: 2 })
  await withProducer(database, async ({ url }) => {
    const as = (work: (client: pg.Client) => Promise<unknown>) => inTransaction(work, 'begin', url)
    const submit = () => as((client) => client.query(`select sluice.submit('idle', '1')`))
    await submit()
    await submit()
    await expect(submit()).rejects.toMatchObject({ code: 'SL007' })
    for (const statement of [
      'update sluice.admission set max_active = 100',
      'delete from sluice.charges',
      `select sluice.change_admission_v1('{"maxActive": 100}', 'me', true)`,
    ])
      await expect(as((client) => client.query(statement))).rejects.toMatchObject({ code: '42501' })
    await app.setAdmission({ maxActive: null })
    await submit()
  })
})

describe('the depth of a task', () => {
  test('refuses more waiting jobs of it, and leaves other tasks alone', async () => {
    const app = await open({ maxQueued: { idle: 2 } })
    await app.submit(idle, 1)
    await app.submit(idle, 2)
    // Its time has not come, so it does not wait for its turn yet.
    await app.submit(idle, 'later', { runAt: '1h' })
    await expect(app.submit(idle, 3)).rejects.toMatchObject({
      code: 'ADMISSION_REJECTED',
      details: { task: 'idle', maxQueued: 2, queued: 2, retryAfter: expect.any(Number) },
    })
    await app.submitMany(other, [1, 2, 3])
    expect(await app.admission()).toMatchObject({ maxQueued: { idle: 2 }, queued: { idle: 2 } })
  })

  test('counts what comes back to wait: it is held, and nothing more is let in', async () => {
    const gate = new Gate()
    const handed = task({
      name: 'handed',
      run: (_: unknown, ctx) =>
        new Promise((_, reject) => {
          ctx.signal.addEventListener('abort', () => reject(ctx.signal.reason))
          void gate.pass()
        }),
    })
    const lanes = { default: { poll: '50ms', perWorker: 4 } } as const
    const app = await apps.open({ tasks: [handed], lanes, shutdownGrace: 0 })
    await app.setAdmission({ maxQueued: { handed: 2 } })
    await app.work({ capacity: 3 })
    for (let n = 1; n <= 3; n++) {
      await app.submit(handed, n)
      await gate.arrived(n)
    }
    await app.stopWorking()
    expect(await waiting()).toHaveLength(3)
    await expect(app.submit(handed, 4)).rejects.toMatchObject({
      code: 'ADMISSION_REJECTED',
      details: { task: 'handed', maxQueued: 2, queued: 3 },
    })
  })

  test('does not count what runs', async () => {
    const gate = new Gate()
    const slow = task({ name: 'slow', run: () => gate.pass() })
    const app = await apps.open({ tasks: [slow], lanes: { default: { poll: '50ms', perWorker: 4 } } })
    await app.setAdmission({ maxQueued: { slow: 1 } })
    await app.work({ capacity: 2 })
    for (let n = 0; n < 2; n++) {
      const job = await app.submit(slow, undefined)
      await until(async () => (await app.getJob(job.id)).status === 'running', `job ${job.id} to run`)
    }
    await app.submit(slow, undefined)
    await expect(app.submit(slow, undefined)).rejects.toMatchObject({ details: { maxQueued: 1, queued: 1 } })
    gate.open()
    await app.setAdmission({ maxQueued: { slow: null } })
    await until(async () => (await active()) === 0, 'all to end')
  })

  test('is never exceeded by submissions that race, together with the ceiling', async () => {
    const programs = await Promise.all([open({ maxActive: 30, maxQueued: { idle: 12 } }), open()])
    const attempts = Array.from({ length: 50 }, (_, i) => [
      programs[i % 2]!.submit(idle, i),
      programs[i % 2]!.submit(other, i),
      programs[i % 2]!.submit(idle, i, { key: `deep ${i}` }),
    ]).flat()
    // Not always 30: what is refused for one limit may have kept out others for the other.
    const entered = await admitted(attempts)
    expect(entered).toBeGreaterThan(12)
    expect(entered).toBeLessThanOrEqual(30)
    const queued = await programs[0].admission()
    expect(queued.queued.idle).toBeLessThanOrEqual(12)
  })
})

describe('limits come from', () => {
  test('a program until an operator says otherwise, and again after a reset', async () => {
    const limits = { maxActive: 20, maxQueued: { idle: 10 } }
    const app = await apps.open({ tasks: [idle, other], admission: limits })
    expect(await app.admission()).toMatchObject({ ...limits, operatorSet: [] })
    await app.setAdmission({ maxActive: 30, maxQueued: { other: 5 } })
    const later = await apps.open({
      tasks: [idle, other],
      admission: { maxActive: 25, maxQueued: { idle: 11, other: 6 } },
    })
    expect(await later.admission()).toMatchObject({
      maxActive: 30,
      maxQueued: { idle: 11, other: 5 },
      operatorSet: ['maxActive', 'maxQueued.other'],
    })
    expect(await later.resetAdmission()).toMatchObject({
      maxActive: 25,
      maxQueued: { idle: 11, other: 6 },
      operatorSet: [],
    })
  })

  test.each([
    [{ maxActive: 0 }, 'maxActive: 0 must be a whole number from 1'],
    [{ maxActive: 1.5 }, 'maxActive: 1.5 must be'],
    [{ maxQueued: { idle: -1 } }, 'maxQueued.idle: -1 must be'],
    [{ maxQueued: { 'no name': 1 } }, 'maxQueued: "no name" must be'],
    [{}, 'change: an object must be'],
    [{ maxactive: 1 }, 'did you mean maxActive?'],
  ])('nowhere that says %j', async (change, message) => {
    const app = await open()
    await expect(app.setAdmission(change as object)).rejects.toMatchObject({
      code: 'INVALID_ARGUMENT',
      message: expect.stringContaining(message),
    })
  })
})
