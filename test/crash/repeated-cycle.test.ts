import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Sluice, sluice } from '../../src/index.ts'
import { useDatabase } from '../support/database.ts'
import { type ProxiedRequest, type RequestProxy, startRequestProxy } from '../support/request-proxy.ts'
import { until } from '../support/until.ts'
import { useCommitChecker } from '../support/watched-commits.ts'
import { SHORT_LEASES, startWorker } from '../support/worker-process.ts'

const database = useDatabase()
const commits = useCommitChecker(database)
const LANES = { narrow: { slots: 3, poll: '1m' } } as const
let app: Sluice
let proxy: RequestProxy

beforeAll(async () => {
  app = await sluice({ database: database.url, ...SHORT_LEASES, lanes: LANES })
  proxy = await startRequestProxy(database.url)
})
afterAll(async () => {
  await app.close()
  await proxy.close()
})

const start = () =>
  startWorker({
    options: { database: proxy.url, lanes: LANES },
    work: { capacity: 2 },
    tasks: { act: { lane: 'narrow' } },
  })
/** The general cycle: a steady one that needs another slot does nothing. */
const isRepeatable = ({ statement, repeatable }: ProxiedRequest) => statement === 'run_cycle' && repeatable

async function running(): Promise<number> {
  const [row] = await database.sql<{ n: number }>(
    `select count(*)::integer as n from sluice.jobs where state = 'running'`,
  )
  return row!.n
}

test('a claim that is carried out twice takes jobs once, and its worker gets them though it saw no answer', async () => {
  const worker = await start()
  // The first cycle of a session carries its text and cannot be repeated.
  await (await app.submit('act', {})).result()
  const next = proxy.hold(isRepeatable)
  const jobs = await app.submitMany('act', [{}, {}, {}, {}, {}, {}])
  const claim = await next
  expect(await claim.deliver()).toBe(true)
  expect(await running()).toBe(2)
  expect(await claim.deliver()).toBe(true)
  expect(await running()).toBe(2)
  expect((await commits.catchUp()).violations).toEqual([])
  claim.cut()
  claim.close()

  for (const job of jobs) expect(await job.result()).toEqual({ attempt: 1, pid: worker.pid })
  await worker.close()
})

test('a claim that is carried out again much later gives its worker jobs it does not know: it learns of them', async () => {
  const worker = await start()
  await (await app.submit('act', {})).result()
  const next = proxy.hold(isRepeatable)
  const first = await app.submit('act', {})
  const claim = await next
  claim.pass()
  await first.result()
  await until(
    async () => (await database.sql('select 1 from sluice.holdings where slots > 0')).length === 0,
    'the worker to be idle',
  )

  await worker.pause()
  const jobs = await app.submitMany('act', [{}, {}, {}])
  expect(await claim.deliver()).toBe(true)
  expect(await running()).toBe(2)
  worker.resume()
  for (const job of jobs) expect(await job.result()).toEqual({ attempt: 1, pid: worker.pid })
  await worker.close()
})
