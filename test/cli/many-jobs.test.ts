import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { fail, task } from '../../src/index.ts'
import { useDatabase } from '../support/database.ts'
import { startTestServer, type TestServer } from '../support/http-server.ts'
import { findStep } from '../support/trees.ts'
import { until } from '../support/until.ts'
import { Cli, type Ran } from './cli.ts'

const database = useDatabase()
const cli = new Cli()
const idle = task({ name: 'idle', lane: 'shut', run: async (_: number) => null })
const other = task({ name: 'other', lane: 'shut', run: async (_: number) => null })
const fine = task({ name: 'fine', run: async (_: number) => null })
const picky = task({
  name: 'picky',
  run: async (_: number): Promise<void> => {
    throw fail('not yet')
  },
})
const PAIR = {
  name: 'pair',
  definition: { steps: { one: { task: 'picky', with: 1 }, two: { task: 'picky', with: 2 } } },
}
const HALF = {
  name: 'half',
  definition: {
    steps: { good: { task: 'fine', with: 1 }, bad: { task: 'picky', needs: ['good'], with: 1 } },
  },
}
let server: TestServer
let key = ''

beforeAll(async () => {
  server = await startTestServer(database.url, {
    tasks: [idle, other, fine, picky],
    workflows: [PAIR, HALF, { name: 'parked', definition: { steps: { only: { task: 'idle', with: 1 } } } }],
    lanes: { shut: { enabled: false } },
  })
  key = await server.keyOf('operator', 'olga')
})
afterAll(() => server.stop())

beforeEach(async () => {
  await database.sql('delete from sluice.jobs')
  await server.app.submitMany(idle, [1, 2, 3], { tags: ['old'] })
  await server.app.submitMany(other, [1, 2])
})

/** A workflow that has failed, by default with both of its steps. */
async function failedPair(name = 'pair'): Promise<{ root: string; steps: string[] }> {
  await server.app.work()
  const { id } = await server.app.submit(name, {})
  await server.app
    .job(id)
    .result()
    .catch(() => {})
  await server.app.stopWorking()
  const steps = await server.app.listJobs({ parent: id })
  return { root: id, steps: steps.map((step) => step.id).toReversed() }
}

async function statuses(): Promise<Record<string, number>> {
  const rows = await database.sql<{ what: string; n: number }>(
    `select task || ' ' || state as what, count(*)::integer as n from sluice.jobs group by 1`,
  )
  return Object.fromEntries(rows.map(({ what, n }) => [what, n]))
}

describe.each(['on the database', 'through a server'])('%s', (way) => {
  const run = (...args: string[]): Promise<Ran> => {
    const environment =
      way === 'on the database'
        ? { DATABASE_URL: database.url }
        : { DATABASE_URL: '', SLUICE_SERVER: server.url, SLUICE_KEY: key }
    return cli.run(args, { environment })
  }

  test('kill counts what a filter finds, and cancels it', async () => {
    const dry = await run('cancel', '--task', 'idle', '--status', 'queued', '--dry-run')
    expect(dry).toEqual({ code: 0, stdout: '3 jobs would be cancelled, or asked to stop\n', stderr: '' })
    expect(await statuses()).toEqual({ 'idle ready': 3, 'other ready': 2 })

    const done = await run('cancel', '--tag', 'old', '--reason', 'too old')
    expect(done).toEqual({ code: 0, stdout: '3 jobs cancelled, or asked to stop\n', stderr: '' })
    expect(await statuses()).toEqual({ 'idle cancelled': 3, 'other ready': 2 })
    const [job] = await server.app.listJobs({ tag: 'old', limit: 1 })
    expect(job!.error).toBe('cancelled: too old')
  })

  test('changes the priority of all it finds, also to a negative one', async () => {
    const done = await run('priority', '-7', '--lane', 'shut', '--json')
    expect(JSON.parse(done.stdout)).toEqual({ matched: 5, changed: 5, refused: [], dryRun: false })
    for (const { priority } of await server.app.listJobs()) expect(priority).toBe(-7)
  })

  test('changes the priority of a running workflow and of its steps, by id and by filter', async () => {
    await server.app.work()
    const { id } = await server.app.submit('parked', {})
    const step = await until(() => findStep(database.sql, id, 'only'), 'its step')
    await server.app.stopWorking()
    expect((await run('nice', id, '4')).stdout).toBe(`job ${id}: has priority 4\n`)
    expect((await run('priority', id, '3')).stdout).toBe(`job ${id}: has priority 3\n`)
    expect((await server.app.getJob(step)).priority).toBe(3)
    const done = await run('priority', '8', '--task', 'parked', '--json')
    expect(JSON.parse(done.stdout)).toMatchObject({ matched: 1, changed: 1 })
    expect((await server.app.getJob(step)).priority).toBe(8)
  })

  test('errors lists failures by what they have in common, and retry runs a group again', async () => {
    const { steps } = await failedPair()
    const listed = await run('errors', '--since', '1h')
    expect([listed.code, listed.stderr]).toEqual([0, ''])
    expect(listed.stdout).toMatch(/^GROUP +COUNT +TASK +CLASS +ERROR +FIRST +LAST +LATEST JOB\n/)
    const [, group] = /\n([0-9a-f]{12}) +2 +picky +\S+ +not yet +.* ago +.* ago +\d+\n$/.exec(listed.stdout)!
    const told = JSON.parse((await run('errors', '--task', 'picky', '--json')).stdout)
    expect(told).toMatchObject({
      groups: [{ fingerprint: group, count: 2, tasks: ['picky'], pattern: 'not yet' }],
      complete: true,
    })
    expect((await run('errors', '--task', 'fine')).stdout).toMatch(/^no failed jobs in /)

    const dry = await run('retry', '--group', group!, '--dry-run')
    expect([dry.code, dry.stdout]).toEqual([0, expect.stringContaining('2 jobs would be queued again')])
    expect((await server.app.getJob(steps[0]!)).status).toBe('failed')
    const done = await run('retry', '--group', group!)
    expect([done.code, done.stdout]).toEqual([0, expect.stringContaining('2 jobs queued again')])
    expect((await server.app.getJob(steps[0]!)).status).not.toBe('failed')
    const wrong = await run('retry', '--group', 'not-a-group')
    expect([wrong.code, wrong.stderr]).toEqual([2, expect.stringContaining('sluice errors')])
  })

  test('retry runs matching jobs again; one that cannot is reported, and the exit code is 1', async () => {
    const kept = await server.app.submit(other, 7, { key: 'k' })
    await server.app.cancelMany({})
    await server.app.submit(other, 7, { key: 'k' })
    const { code, stdout, stderr } = await run('retry', '--status', 'cancelled')
    expect([code, stdout]).toEqual([1, '5 jobs queued again\n'])
    expect(stderr).toMatch(new RegExp(`^error: job ${kept.id}: .*its key \\(KEY_CONFLICT\\)\\n$`))
  })

  test('retry reruns a workflow once for all its jobs, by filter and by ids', async () => {
    const first = await failedPair()
    const second = await failedPair()
    const dry = await run('retry', '--task', 'pair', '--dry-run')
    expect(dry).toEqual({
      code: 0,
      stderr: '',
      stdout:
        '2 jobs would be queued again\n' +
        '  workflow pair: 4 jobs would run again in 2 runs\n' +
        '  in all: 4 jobs would run again\n',
    })
    const byId = await run('retry', ...first.steps, '--json')
    expect([byId.code, JSON.parse(byId.stdout)]).toEqual([
      0,
      first.steps.map((id) => ({ id, root: first.root, jobs: 2, superseded: 0, status: 'queued' })),
    ])
    const byFilter = await run('retry', '--task', 'pair', '--json')
    expect(JSON.parse(byFilter.stdout)).toMatchObject({
      matched: 1,
      changed: 1,
      reruns: { jobs: 2, workflows: [{ name: 'pair', runs: 1, jobs: 2 }], leftOut: 0 },
    })
    for (const { root } of [first, second]) expect((await server.app.getJob(root)).status).toBe('running')
  })

  test('retry refuses the named jobs of a workflow that cannot run again, each with its reason', async () => {
    const { root, steps } = await failedPair('half')
    const [good, bad] = steps
    const both = await run('retry', bad!, good!)
    expect(both).toMatchObject({
      code: 1,
      stdout: expect.stringMatching(`^job ${bad}: runs again.*1 job queued again\n$`),
    })
    expect(both.stderr).toMatch(
      new RegExp(`error: job ${good} cannot run again: it is completed.*ILLEGAL_TRANSITION`),
    )
    expect((await server.app.getJob(root)).status).toBe('running')
  })

  test('a filter that finds nothing says so', async () => {
    const { code, stdout } = await run('cancel', '--task', 'nobody')
    expect([code, stdout]).toEqual([0, expect.stringMatching(/^no such jobs in /)])
    const killed = await run('cancel', '--task', 'idel', '--dry-run')
    expect([killed.code, killed.stderr]).toEqual([
      0,
      'warning: task "idel" does not exist; did you mean idle?\n',
    ])
    const niced = await run('priority', '5', '--lane', 'defualt', '--dry-run')
    expect([niced.code, niced.stderr]).toEqual([
      0,
      'warning: lane "defualt" does not exist; did you mean default?\n',
    ])
  })
})

test.each([
  [['cancel'], 'name the jobs by their ids, or by a filter'],
  [['cancel', '5', '--task', 'idle'], 'cannot be combined'],
  [['cancel', '5', '--dry-run'], '--dry-run: counts what a filter finds'],
  [['retry'], 'name the jobs'],
  [['retry', '--task', 'idle', '--from', 'step'], '--from'],
  [['priority', '5'], 'name the jobs'],
  [['priority', '5', '6', '--task', 'idle'], 'cannot be combined'],
  [['priority', 'high', '--task', 'idle'], 'whole number'],
])('%j is refused, and nothing is done', async (args, words) => {
  const { code, stderr } = await cli.run(args, { environment: { DATABASE_URL: database.url } })
  expect(code).toBe(2)
  expect(stderr).toContain(words)
  expect(await statuses()).toEqual({ 'idle ready': 3, 'other ready': 2 })
})
