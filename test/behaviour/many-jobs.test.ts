import { beforeEach, expect, test } from 'vitest'
import { fail, type Sluice, task } from '../../src/index.ts'
import { useApps } from '../support/apps.ts'
import { useDatabase } from '../support/database.ts'

const database = useDatabase()
const apps = useApps(database)
const idle = task({ name: 'idle', lane: 'closed', run: async (_: number) => 'ran' })
const picky = task({
  name: 'picky',
  run: async (_: number): Promise<void> => {
    throw fail('not yet')
  },
})
let app: Sluice

beforeEach(async () => {
  app = await apps.open({ tasks: [idle, picky], lanes: { closed: { enabled: false } }, actor: 'olga' })
  await database.sql('delete from sluice.jobs')
})

async function states(): Promise<Record<string, number>> {
  const rows = await database.sql<{ state: string; n: number }>(
    'select state, count(*)::integer as n from sluice.jobs group by state',
  )
  return Object.fromEntries(rows.map(({ state, n }) => [state, n]))
}

test('all jobs that match are cancelled, after a dry run that only counts, and each is in the audit', async () => {
  const inputs = Array.from({ length: 250 }, (_, n) => n)
  const [first] = await app.submitMany(idle, inputs, { tags: ['old'] })
  await app.submitMany(idle, [1, 2], { tags: ['new'] })

  const filter = { tag: 'old' }
  expect(await app.cancelMany(filter, { dryRun: true })).toEqual({ matched: 250, changed: 0, refused: [] })
  expect(await states()).toEqual({ ready: 252 })
  expect(await app.cancelMany(filter, { reason: 'too old' })).toEqual({
    matched: 250,
    changed: 250,
    refused: [],
  })
  expect(await states()).toEqual({ ready: 2, cancelled: 250 })
  expect((await app.getJob(first!.id)).error).toBe('cancelled: too old')
  const lines = await database.sql(
    `select count(*)::integer as n from sluice.audit where action = 'job.cancel' and actor = 'olga'`,
  )
  expect(lines).toEqual([{ n: 250 }])
})

test('waiting jobs that match get another priority', async () => {
  const jobs = await app.submitMany(idle, [1, 2, 3], { tags: ['urgent'] })
  const other = await app.submit(idle, 4)
  expect(await app.reprioritiseMany({ tag: 'urgent' }, 7)).toEqual({ matched: 3, changed: 3, refused: [] })
  for (const { id } of jobs) expect((await app.getJob(id)).priority).toBe(7)
  expect((await app.getJob(other.id)).priority).toBe(0)
})

test('failed jobs that match run again, and one whose key is taken does not keep the others from it', async () => {
  await app.work()
  const jobs = await app.submitMany(picky, [1, 2, 3], { each: (n) => ({ key: `key ${n}` }) })
  for (const job of jobs) await expect(job.result()).rejects.toMatchObject({ code: 'JOB_FAILED' })
  await app.stopWorking()
  await app.submit(picky, 2, { key: 'key 2' })

  const done = await app.retryMany({ task: 'picky', status: ['failed'] })
  expect(done).toMatchObject({
    matched: 3,
    changed: 2,
    refused: [{ id: jobs[1]!.id, code: 'KEY_CONFLICT', detail: expect.any(String) }],
  })
  expect(await states()).toEqual({ ready: 3, failed: 1 })
})

test.each([
  [() => app.cancelMany({ status: ['completed'] }), 'filter.status'],
  [() => app.retryMany({ status: ['running'] }), 'filter.status'],
  [() => app.cancelMany({ limit: 3 } as object), 'limit'],
  [() => app.cancelMany({}, { dryrun: true } as object), 'dryrun'],
  [() => app.cancelMany({}, { dryRun: 'yes' } as object), 'dryRun'],
  [() => app.reprioritiseMany({}, 1.5), 'priority'],
])('a wrong argument is refused and nothing is done: %s', async (act, word) => {
  await app.submit(idle, 1)
  await expect(act()).rejects.toMatchObject({
    code: 'INVALID_ARGUMENT',
    message: expect.stringContaining(word),
  })
  expect(await states()).toEqual({ ready: 1 })
})
