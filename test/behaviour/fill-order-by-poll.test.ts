import { setTimeout as delay } from 'node:timers/promises'
import { afterAll, beforeAll, beforeEach, expect, test, vi } from 'vitest'
import { type Sluice, task } from '../../src/index.ts'
import { useApps } from '../support/apps.ts'
import { useDatabase } from '../support/database.ts'
import { type RequestProxy, startRequestProxy } from '../support/request-proxy.ts'
import { forgetJobs } from '../support/state/jobs.ts'
import { until } from '../support/until.ts'

vi.setConfig({ testTimeout: 120_000 })

// Fill order in real time, with workers that run. Where hints do not arrive, as behind a pooler, they poll.

const database = useDatabase()
const apps = useApps(database)
const POLL_MS = 100
const lanes = { default: { slots: null, perWorker: null, poll: POLL_MS } } as const
const echo = task({ name: 'echo', run: (n: number) => n })
const COUNT = 100
const AT_ONCE = 5
const NAMES = ['first', 'second', 'third']
let silent: RequestProxy

beforeAll(async () => {
  silent = await startRequestProxy(database.url)
  silent.takeOver((request) => {
    if (request.applicationName !== 'sluice-listen') return false
    request.ignore()
    return true
  })
})
afterAll(() => silent.close())
beforeEach(() => forgetJobs(database.sql))

/** Three workers, in the order in which they are filled, and a producer that they do not share a process's hints with. */
async function start(url: string, capacity: number): Promise<Sluice> {
  for (const name of NAMES) {
    const app = await apps.open({ tasks: [echo], lanes, database: url, heartbeat: '500ms', stale: '10s' })
    await app.work({ name, capacity })
  }
  return apps.open({ tasks: [echo], lanes })
}

/**
 * Submits a few jobs at a time, at random moments between polls. In the pauses every worker comes to rest: one that has just had
 * a job looks again within milliseconds, and would get the next one whatever its place is.
 */
async function submitSlowly(producer: Sluice, runAt?: string): Promise<void> {
  for (let n = 0; n < COUNT; n += AT_ONCE) {
    await producer.submitMany(echo, Array.from({ length: AT_ONCE }), runAt === undefined ? {} : { runAt })
    await delay(POLL_MS * (0.8 + Math.random()))
  }
}

/** How many of the jobs each worker ran, once all have run. */
async function shares(producer: Sluice, count: number): Promise<Record<string, number>> {
  const jobs = await until(
    async () => {
      const ended = await producer.listJobs({ status: ['completed'], limit: count })
      return ended.length === count ? ended : undefined
    },
    `${count} jobs to end`,
    60_000,
  )
  const found: Record<string, number> = {}
  for (const { worker } of jobs) found[worker!] = (found[worker!] ?? 0) + 1
  return found
}

test.each([
  { where: 'hints do not arrive', hears: false, runAt: undefined },
  { where: 'hints do not arrive and jobs are promoted', hears: false, runAt: '700ms' },
  { where: 'jobs are promoted', hears: true, runAt: '700ms' },
])('the first worker runs at least 95 percent of the jobs where $where', async ({ hears, runAt }) => {
  const producer = await start(hears ? database.url : silent.url, 100)
  await submitSlowly(producer, runAt)
  const found = await shares(producer, COUNT)
  expect(found.first ?? 0, JSON.stringify(found)).toBeGreaterThanOrEqual(0.95 * COUNT)
})

test('every worker takes part in a backlog', async () => {
  const producer = await start(silent.url, 5)
  // With prefetch, fewer jobs end before the last worker polls.
  await producer.submitMany(echo, Array.from({ length: 6000 }))
  const found = await shares(producer, 6000)
  expect(Object.keys(found).toSorted()).toEqual(NAMES)
})
