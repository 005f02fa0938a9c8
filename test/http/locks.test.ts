import pg from 'pg'
import { expect, onTestFinished, test } from 'vitest'
import { readNow } from '../../src/engine/views/now.ts'
import { task } from '../../src/index.ts'
import { Cli } from '../cli/cli.ts'
import { useDatabase } from '../support/database.ts'
import { Gate } from '../support/gate.ts'
import { useServer } from '../support/http-server.ts'
import { lockRunningJob } from '../support/state/jobs.ts'
import { lockLane } from '../support/state/lanes.ts'
import { lockTable } from '../support/state/tables.ts'
import { until } from '../support/until.ts'

const stuck = task({ name: 'stuck', lane: 'shut', run: (n: number) => n })
const gate = new Gate()
const held = task({ name: 'held', lane: 'open', run: () => gate.pass() })
const database = useDatabase()
const server = useServer(database, {
  tasks: [stuck, held],
  lanes: { shut: { slots: 1 }, open: { slots: 1 } },
})
const cli = new Cli({ DATABASE_URL: database.directUrl })

interface Readyz {
  readonly status: string
  readonly checks: { readonly database: string }
  readonly findings: readonly { readonly rule: string; readonly text?: string }[]
}

async function session(): Promise<{ client: pg.Client; pid: number }> {
  const client = new pg.Client({ connectionString: database.directUrl, application_name: 'forgetful' })
  await client.connect()
  onTestFinished(() => client.end())
  const { rows } = await client.query<{ pid: number }>('select pg_backend_pid() as pid')
  return { client, pid: rows[0]!.pid }
}

async function doctor(): Promise<{ check: string; level: string; found: string; advice?: string }[]> {
  return JSON.parse((await cli.run(['doctor', '--json'])).stdout).findings
}

test('a locked lane is named with its holder by Now, doctor, /readyz and why', async () => {
  await server.app.work({ capacity: 2 })
  const { client, pid } = await session()
  const job = await server.app.submit(stuck, 1, { runAt: new Date(Date.now() + 100) })
  await lockLane(client, 'shut')

  const holder = new RegExp(`is locked by pid ${pid} \\(forgetful, idle in transaction for \\d+s\\)`)
  const cure = `run: select pg_terminate_backend(${pid})`
  const { calls } = server.app.services
  const onNow = await until(
    async () => (await readNow(calls)).findings.find(({ rule }) => rule === 'lane_locked'),
    'Now to name the lock',
  )
  expect(onNow).toMatchObject({
    ...{ severity: 'problem', subject: 'lane shut', link: '/lanes?lane=shut' },
    text: expect.stringMatching(holder),
    advice: expect.stringContaining(cure),
  })
  expect(await doctor()).toContainEqual({
    ...{ check: 'lane shut', level: 'problem' },
    found: expect.stringMatching(holder),
    advice: expect.stringContaining(cure),
  })
  const found = await until(
    async () =>
      (await server.at('GET', '/readyz')).json<Readyz>().findings.find(({ rule }) => rule === 'lane_locked'),
    '/readyz to name the lock',
  )
  expect(found.text).toMatch(holder)
  expect((await server.at('GET', '/readyz')).status).toBe(200)
  const why = await until(async () => {
    const answer = await server.app.why(job.id)
    return answer.job.state === 'ready' && answer
  }, 'the job to be due')
  expect(why.wait).toMatchObject({ kind: 'lane_locked', lane: 'shut' })
  expect(why.reason).toMatch(holder)
  expect(why.reason).toContain(cure)

  await client.query('rollback')
  expect(await job.result()).toBe(1)
  expect((await readNow(calls)).findings.filter(({ rule }) => rule === 'lane_locked')).toEqual([])
})

test('a session that holds the row of a running job is named by Now, doctor and /readyz while a worker waits for it', async () => {
  // The worker of the test before.
  const job = await server.app.submit(held, undefined)
  await gate.arrived()
  const { client, pid } = await session()
  await lockRunningJob(client, job.id)
  gate.open()

  const said = new RegExp(
    `blocks Sluice: pid ${pid} \\(forgetful, idle in transaction for \\d+s\\) holds a lock on a row of sluice\\.claims, and .*sluice-cycle.* waited \\d+`,
  )
  const cure = `End its transaction, or run: select pg_terminate_backend(${pid})`
  const { calls } = server.app.services
  const onNow = await until(
    async () => (await readNow(calls)).findings.find(({ rule }) => rule === 'session_blocks'),
    'Now to name the session',
  )
  const subject = `database session ${pid}`
  expect(onNow).toMatchObject({
    ...{ severity: 'problem', subject, advice: cure },
    text: expect.stringMatching(said),
  })
  // Between two tries of the cycle nobody waits for a moment.
  const told = await until(
    async () => (await doctor()).find(({ check }) => check === subject),
    'doctor to name the session',
  )
  expect(told).toMatchObject({ level: 'problem', advice: cure, found: expect.stringMatching(said) })
  const found = await until(
    async () =>
      (await server.at('GET', '/readyz'))
        .json<Readyz>()
        .findings.find(({ rule }) => rule === 'session_blocks'),
    '/readyz to name the session',
  )
  expect(found.text).toMatch(said)

  await client.query('rollback')
  await job.result()
  expect((await readNow(calls)).findings.filter(({ rule }) => rule === 'session_blocks')).toEqual([])
})

test('a session that only refers to a lane does not count as holding it, and does not hide one that does', async () => {
  const { client: referring } = await session()
  const { client: holding, pid } = await session()
  // In this order the row names both of them.
  await referring.query('begin')
  await referring.query("select 1 from sluice.lanes where name = 'open' for key share")
  const { calls } = server.app.services
  const locked = async () => (await readNow(calls)).findings.filter(({ rule }) => rule === 'lane_locked')
  await until(async () => {
    const { rows } = await referring.query("select now() < clock_timestamp() - interval '1100 ms' as old")
    return (rows[0] as { old: boolean }).old
  }, 'the transaction to be older than what is passed over')
  expect(await locked()).toEqual([])
  await holding.query('begin')
  await holding.query("select 1 from sluice.lanes where name = 'open' for no key update")
  const [found] = await until(async () => {
    const all = await locked()
    return all.length > 0 && all
  }, 'the holder to be named')
  expect(found).toMatchObject({ subject: 'lane open', text: expect.stringContaining(`pid ${pid}`) })
  await Promise.all([referring.query('rollback'), holding.query('rollback')])
})

test('a locked table is named with its holder by /readyz and doctor within seconds', async () => {
  const lock = await lockTable(database.directUrl, 'job_data')
  try {
    // They take every connection of the pool, and wait.
    const waiting = Promise.allSettled([1, 2, 3, 4, 5].map((n) => server.app.submit(stuck, n)))
    const said = /^sluice\.job_data is locked by pid \d+ \(lock-holder, idle in transaction for \d+s\)$/
    const answer = await until(async () => {
      const from = performance.now()
      const seen = await server.at('GET', '/readyz')
      expect(performance.now() - from, 'time to answer').toBeLessThan(8000)
      return said.test(seen.json<Readyz>().checks.database) && seen
    }, '/readyz to name the lock')
    expect(answer.status).toBe(503)
    expect(answer.json<Readyz>().findings).toMatchObject([
      {
        rule: 'table_locked',
        severity: 'problem',
        text: expect.stringMatching(/^sluice\.job_data is locked/),
      },
    ])

    const from = performance.now()
    const findings = await doctor()
    // It took 50 s: each check that reads jobs waited until its statement was ended.
    expect(performance.now() - from, 'time of doctor').toBeLessThan(15_000)
    expect(findings).toContainEqual({
      ...{ check: 'sluice.job_data', level: 'problem' },
      found: expect.stringMatching(/^is locked by pid \d+ \(lock-holder, idle in transaction for \d+s\)/),
      advice: expect.stringMatching(/^End its transaction, or run: select pg_terminate_backend\(\d+\)$/),
    })
    expect(findings.at(-1)).toMatchObject({ check: 'tables', level: 'note' })
    await lock.release()
    await waiting
  } finally {
    await lock.release()
  }
  await until(async () => (await server.at('GET', '/readyz')).status === 200, 'the server to be ready again')
})
