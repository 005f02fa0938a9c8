import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { type Sluice, sluice } from '../../src/index.ts'
import { useDatabase } from '../support/database.ts'
import { readJournal } from '../support/journal.ts'
import {
  type HeldRequest,
  type ProxiedRequest,
  type RequestProxy,
  startRequestProxy,
  valuesIn,
} from '../support/request-proxy.ts'
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

/** A steady cycle that reports endings and starts, and asks for jobs to be assigned. */
function isBusySteady(request: ProxiedRequest): boolean {
  if (request.statement !== 'run_steady_cycle' || !request.repeatable) return false
  const values = valuesIn(request)
  // As sluice.steady_cycle_v1 names them: p_done, p_begun, p_ahead.
  return values[3] !== null && values[7] !== null && Number(values[13]) > 0
}

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

/** Short jobs that write down their starts, and a steady cycle of the worker that runs them, held in the midst of them. */
async function holdBusySteady() {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-repeated-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const journal = join(folder, 'journal')
  writeFileSync(journal, '')
  const next = proxy.hold(isBusySteady)
  const submit = (count: number) => app.submitMany('act', Array(count).fill({ sleepMs: 2, journal }))
  const jobs = await submit(300)
  const cycle = await next
  const starts = () => readJournal(journal).filter(({ what }) => what === 'start')
  return { cycle, jobs, submit, starts }
}

/** What a cycle writes. */
const written = async () => ({
  claims: await database.sql('select ctid, xmin, * from sluice.claims order by seq'),
  ended: await database.sql('select id, xmin from sluice.outcomes order by id'),
})

const idsIn = (cycle: HeldRequest, place: number): string[] => valuesIn(cycle)[place]!.slice(1, -1).split(',')

test('a steady cycle with endings, starts and assignments that is carried out twice does all of it once', async () => {
  const worker = await start()
  const { cycle, jobs, starts } = await holdBusySteady()
  expect(await cycle.deliver()).toBe(true)
  const once = await written()
  const ended = once.ended.map(({ id }) => id)
  expect(ended).toEqual(expect.arrayContaining(idsIn(cycle, 3)))
  // It has recorded the starts, and assigned others.
  const assigned = once.claims.flatMap((claim) => (claim.assigned as string[] | null) ?? [])
  for (const id of idsIn(cycle, 7)) expect(assigned).not.toContain(id)
  expect(assigned.length).toBeGreaterThan(0)
  expect(await cycle.deliver()).toBe(true)
  expect(await written()).toEqual(once)
  cycle.cut()
  cycle.close()

  for (const job of jobs) expect(await job.result()).toEqual({ attempt: 1, pid: worker.pid })
  expect(
    starts()
      .map(({ job }) => job)
      .sort(),
  ).toEqual(jobs.map(({ id }) => id).sort())
  expect((await commits.catchUp()).violations).toEqual([])
  await worker.close()
})

test('a steady cycle with endings, starts and assignments that is carried out again much later does nothing', async () => {
  const worker = await start()
  const { cycle, jobs, submit, starts } = await holdBusySteady()
  cycle.pass()
  for (const job of jobs) await job.result()
  await until(
    async () => (await database.sql('select 1 from sluice.holdings where slots > 0')).length === 0,
    'the worker to be idle',
  )

  await worker.pause()
  const more = await submit(3)
  // As if it still held its idle slots: without them, it could be given nothing.
  await database.sql('update sluice.holdings set slots = 2')
  const before = await written()
  expect(await cycle.deliver()).toBe(true)
  expect(await written()).toEqual(before)
  worker.resume()
  const all = [...jobs, ...more]
  for (const job of all) expect(await job.result()).toEqual({ attempt: 1, pid: worker.pid })
  expect(
    starts()
      .map(({ job }) => job)
      .sort(),
  ).toEqual(all.map(({ id }) => id).sort())
  expect((await commits.catchUp()).violations).toEqual([])
  await worker.close()
})
