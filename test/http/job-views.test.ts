import { beforeAll, describe, expect, test } from 'vitest'
import { SluiceClient } from '../../src/client/index.ts'
import { type Flow, task, workflow } from '../../src/index.ts'
import { useDatabase } from '../support/database.ts'
import { useServer } from '../support/http-server.ts'
import { findStep } from '../support/trees.ts'
import { until } from '../support/until.ts'

let broken = true
const item = task({
  name: 'item',
  retry: { attempts: 2, backoff: 'fixed', delay: '1ms' },
  run: (n: number) => {
    if (broken && n === 17) throw new Error(`item ${n} has no file "/tmp/x-${n}.txt"`)
    return n
  },
})
const flat = task({
  name: 'flat',
  retry: { attempts: 1 },
  run: (n: number) => {
    if (broken) throw new Error(`connection ${n} to 10.0.0.${n} was refused`)
    return n
  },
})
const wide = workflow({
  name: 'wide',
  steps: (flow: Flow<unknown>) => {
    const first = flow.step('first', item, 1)
    flow.each(
      'fan',
      Array.from({ length: 30 }, (_, n) => n),
      item,
      (n) => n,
      { concurrency: 5, needs: [first] },
    )
  },
})
const database = useDatabase()
const server = useServer(database, {
  tasks: [item, flat],
  workflows: [wide],
  lanes: { default: { perWorker: null } },
})
let client: SluiceClient
let ann: SluiceClient
let root = ''
let fan = ''
let failed = ''

beforeAll(async () => {
  client = new SluiceClient({ server: server.url, key: await server.keyOf('operator', 'olga') })
  ann = new SluiceClient({ server: server.url, key: await server.keyOf('submitter', 'ann') })
  await server.app.work({ capacity: 8 })
  root = (await client.submit('wide', {})).id
  for (const n of [1, 2, 3]) await ann.submit('flat', n)
  await until(async () => (await client.getJob(root)).status === 'failed', 'the workflow to fail')
  await until(async () => (await ann.listJobs({ status: ['failed'] })).length === 3, 'three to fail')
  fan = (await findStep(database.sql, root, 'fan'))!
  const [bad] = await database.sql<{ id: string }>(
    `select id from sluice.jobs where parent_id = $1 and state = 'failed'`,
    [fan],
  )
  failed = bad!.id
})

test('a tree is shown over time, with what the whole waited for', async () => {
  const { spans, criticalIds, since, until: end } = await client.waterfall(root)
  expect(since.getTime()).toBeLessThanOrEqual(end.getTime())
  const steps = spans.filter(({ depth }) => depth === 1)
  expect(steps.map(({ step, kind, critical }) => [step, kind, critical])).toEqual([
    ['first', null, true],
    ['fan', 'fanout', true],
  ])
  expect(criticalIds).toEqual([steps[0]!.id, fan])
  expect(steps[1]!.hidden).toBeGreaterThan(0)
})

test('returns the timeline of a job in order', async () => {
  const entries = await client.timeline(failed)
  expect(entries.map(({ what, attempt, final }) => [what, attempt, final])).toEqual([
    ['submitted', null, false],
    ['started', 1, false],
    ['failed', 1, false],
    ['ready', null, false],
    ['started', 2, false],
    ['failed', 2, true],
  ])
  expect(entries.every(({ at }) => at instanceof Date)).toBe(true)
  expect(entries.at(-1)).toMatchObject({
    error: expect.stringContaining('item 17'),
    worker: expect.any(String),
  })
})

describe('failures', () => {
  test('are grouped by what their errors have in common; what they only led to is not counted', async () => {
    const { groups, complete } = await client.errorGroups()
    expect(groups.map(({ pattern, count, tasks }) => [pattern, count, tasks])).toEqual([
      ['connection N to N.N.N.N was refused', 3, ['flat']],
      ['item N has no file ...', 1, ['item']],
    ])
    expect(groups[1]).toMatchObject({
      exampleId: failed,
      exampleClass: 'Error',
      lastAt: expect.any(Date),
    })
    expect(complete).toBe(true)
    expect((await ann.errorGroups()).groups.map(({ count }) => count)).toEqual([3])
    expect((await client.errorGroups({ task: 'item' })).groups).toHaveLength(1)
    const [{ pattern }] = (await database.sql(
      `select sluice.error_pattern_v1('https://pay.example.com/v2/charges/7 answered 503, see /var/log/pay.log') as pattern`,
    )) as [{ pattern: string }]
    expect(pattern).toBe('https://pay.example.com... answered N, see ...')
    expect((await client.errorGroups({ since: new Date(Date.now() + 60_000) })).groups).toEqual([])
  })

  test('of a group are listed by page, and retried together with a reason', async () => {
    const { groups } = await client.errorGroups()
    const [refused, missing] = groups.map(({ fingerprint }) => fingerprint)
    const page = await client.listJobsPage({ fingerprint: refused!, limit: 2 })
    const next = await client.listJobsPage({ fingerprint: refused!, limit: 2 }, page.next!)
    expect([page.jobs.length, next.jobs.length, next.next]).toEqual([2, 1, null])
    expect(page.jobs[0]).not.toHaveProperty('input')
    expect((await client.listJobsPage({ fingerprint: missing! })).jobs.map(({ id }) => id)).toEqual([failed])
    await expect(client.listJobsPage({ fingerprint: refused!, tag: 'x' })).rejects.toMatchObject({
      code: 'INVALID_ARGUMENT',
    })
    await expect(client.listJobsPage({}, page.next!)).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })

    broken = false
    expect(await client.retryMany({ fingerprint: missing! }, { dryRun: true })).toMatchObject({ matched: 1 })
    const told: number[] = []
    const done = await client
      .because('deployed a fix')
      .retryMany({ fingerprint: refused! }, { onProgress: ({ changed }) => told.push(changed) })
    expect([done.changed, told.at(-1)]).toEqual([3, 3])
    // Of a tree the root: its failed child goes again, and what follows from it.
    await client.retryMany({ fingerprint: missing! })
    await until(async () => (await client.getJob(root)).status === 'completed', 'the workflow to complete')
    const rows = await database.sql<{ reason: string }>(
      `select distinct reason from sluice.audit where action = 'job.retry' and reason is not null`,
    )
    expect(rows).toEqual([{ reason: 'deployed a fix' }])
    expect((await client.errorGroups()).groups).toEqual([])
    const again = (await client.timeline(failed)).slice(-5)
    expect(again.map(({ what, by }) => [what, by])).toEqual([
      ['failed', null],
      ['rerun', expect.any(String)],
      ['ready', null],
      ['started', null],
      ['completed', null],
    ])
    expect(again.map(({ at }) => at!.getTime())).toEqual(again.map(({ at }) => at!.getTime()).toSorted())
  })
})
