import { beforeAll, describe, expect, test } from 'vitest'
import { SluiceClient } from '../../src/client/index.ts'
import { sample } from '../../src/duties/sample.ts'
import { readNow } from '../../src/engine/views/now.ts'
import { task } from '../../src/index.ts'
import { latestSamples } from '../../src/store/latest-samples.ts'
import { useDatabase } from '../support/database.ts'
import { EventReader } from '../support/event-reader.ts'
import { Gate } from '../support/gate.ts'
import { startTestServer, useServer } from '../support/http-server.ts'
import { plantClaimedDuty } from '../support/state/duties.ts'
import { until } from '../support/until.ts'

const gate = new Gate()
const slow = task({ name: 'slow', lane: 'interactive', run: (_: unknown) => gate.pass() })
const bad = task({
  name: 'bad',
  retry: { attempts: 1 },
  run: () => {
    throw new Error('no')
  },
})
const gated = task({ name: 'gated', approval: true, run: (_: unknown) => null })
const database = useDatabase()
const server = useServer(database, {
  tasks: [slow, bad, gated],
  workflows: [{ name: 'asks', definition: { steps: { gated: { task: 'gated' } } } }],
  budgets: { licences: 3 },
  admission: { maxActive: 5 },
})
let viewer = ''
let operator = ''

beforeAll(async () => {
  viewer = await server.keyOf('viewer')
  operator = await server.keyOf('operator', 'olga')
})

async function sampled(): Promise<void> {
  const nothing = () => {}
  const log = { debug: nothing, info: nothing, warn: nothing, error: nothing }
  await sample.run({ db: server.app.services.calls, log, goodForMs: 0, isStopping: () => false })
}

function lane(event: { data: { lanes: { name: string }[] } } | undefined, name: string) {
  return event?.data.lanes.find((each) => each.name === name)
}

describe('the live view', () => {
  test('tells how the system stands when something changes, to many readers with one reading', async () => {
    const readers = Array.from({ length: 5 }, () => new EventReader(server.url, '/live', viewer))
    await Promise.all(
      readers.map((each) => each.until('the first picture', ({ last }) => last !== undefined)),
    )
    expect(readers[0]!.last).toMatchObject({
      event: 'now',
      data: {
        admission: { maxActive: 5, active: 0, refusedPerMinute: 0, retryAfter: null },
        workers: { live: 0, busy: 0 },
        devices: [{ budget: 'licences', key: '', capacity: 3, held: 0, models: [] }],
        states: { queued: 0, running: 0, retrying: 0 },
        failedPerMinute: 0,
      },
    })
    await server.app.submitMany(slow, [1, 2, 3])
    await server.app.work({ capacity: 4 })
    await sampled()
    for (const reader of readers)
      await reader.until('two that run and one that waits', ({ last }) => {
        const now = lane(last, 'interactive') as { running?: number } | undefined
        return now?.running === 2 && last!.data.states.queued === 1
      })
    expect(readers[0]!.last!.data).toMatchObject({ workers: { live: 1, busy: 1, running: 2 } })
    expect(new Set(readers.map((each) => each.last!.id)).size).toBe(1)
    for (const reader of readers) reader.close()
    gate.open()
    await until(async () => (await server.app.listJobs({ status: ['completed'] })).length === 3, 'all to end')
  })

  test("streams a list as it changes, only with the reader's jobs, and sends a returning client only what is new", async () => {
    const own = await server.keyOf('submitter', 'sue')
    const reader = await new EventReader(server.url, '/live?jobs=true&status=queued', own).opened()
    await reader.until('an empty page', ({ last }) => last?.event === 'jobs')
    expect(reader.last!.data).toEqual({ jobs: [], next: null })
    await server.app.submit(slow, 1, { runAt: '1h' })
    const { id } = (
      await server.call('POST', '/jobs', { key: own, body: { task: 'slow', runAt: '1h' } })
    ).json<{ id: string }>()
    await reader.until('its own job', ({ last }) => last!.data.jobs.length > 0)
    expect(reader.events.map(({ event }) => event)).not.toContain('now')
    expect(reader.last!.data.jobs.map((each: { id: string }) => each.id)).toEqual([id])
    reader.close()

    const other = await startTestServer(database.url, { tasks: [slow, bad] })
    try {
      const again = new EventReader(other.url, '/live?jobs=true&status=queued', own, reader.last!.id)
      await again.opened()
      await server.call('DELETE', `/jobs/${id}`, { key: own })
      await again.until('what is new', ({ last }) => last !== undefined)
      expect(again.events.map(({ data }) => data.jobs.length)).toEqual([0])
      again.close()
    } finally {
      await other.stop()
    }
  })

  test('is refused to those who may see none of it, and tells those who may no longer', async () => {
    const submitter = await server.keyOf('submitter')
    const worker = await server.keyOf('worker')
    const statuses = await Promise.all(
      [
        ['/live', worker],
        ['/live?now=true', submitter],
        ['/live', submitter],
        ['/live?jobs=true&error=%00', viewer],
      ].map(async ([path, key]) => (await server.call('GET', path!, { key })).status),
    )
    expect(statuses).toEqual([403, 403, 400, 400])
    const admin = await server.keyOf('platform_admin')
    const key = await server.call('POST', '/keys', { key: admin, body: { name: 'v', role: 'viewer' } })
    const { id, key: secret } = key.json<{ id: string; key: string }>()
    const reader = await new EventReader(server.url, '/live', secret).opened()
    await server.call('DELETE', `/keys/${id}`, { key: admin })
    await reader.ended()
    expect(reader.last).toMatchObject({ event: 'denied', data: { code: 'UNAUTHENTICATED' } })
  })

  test('counts failures and refusals, and the client reads it with dates', async () => {
    const client = new SluiceClient({ server: server.url, key: operator })
    await expect((await client.submit('bad', 1)).result()).rejects.toMatchObject({ code: 'JOB_FAILED' })
    const { active, scheduled } = await server.app.admission()
    const held = await server.app.submitMany(gated, Array.from({ length: 5 - active! }))
    const later = await client.submit('slow', 1, { runAt: '1h' })
    await expect(client.submit('slow', 1)).rejects.toMatchObject({ code: 'ADMISSION_REJECTED' })
    const stop = new AbortController()
    const links: boolean[] = []
    for await (const { event, data } of client.live({
      signal: stop.signal,
      onLink: (up) => links.push(up),
    })) {
      if (event !== 'now' || data.admission.refusedPerMinute === 0) continue
      expect(data.at).toBeInstanceOf(Date)
      expect(data).toMatchObject({
        failedPerMinute: 1,
        failedLastHour: 1,
        admission: {
          active: 5,
          maxScheduled: 100_000,
          scheduled: scheduled! + 1,
          refusedPerMinute: 1,
          retryAfter: expect.any(Number),
        },
      })
      break
    }
    expect(links).toEqual([true])
    for (const { id } of [...held, later]) await server.app.cancel(id)
  })
})

test('an obstacle of a lane stays shown while the duty samples again, and disappears with the waiting jobs', async () => {
  const seen = async () =>
    (await readNow(server.app.services.calls)).lanes.find(({ name }) => name === 'interactive')
  await server.app.setLane('interactive', { enabled: false })
  const { id } = await server.app.submit(slow, 1)
  await sampled()
  await plantClaimedDuty(database.sql, 'sample')
  expect(await seen()).toMatchObject({ depth: 1, reason: 'lane interactive is paused' })
  const samples = await latestSamples(server.app.services.calls)
  expect(samples).toMatchObject([{ lane: 'interactive', depth: 1, reason: 'lane interactive is paused' }])
  await server.app.cancel(id)
  expect(await seen()).toMatchObject({ depth: 0, reason: null })
  await server.app.resetLane('interactive')
})

test('the series has a point for times when something ran or waited', async () => {
  const client = new SluiceClient({ server: server.url, key: viewer })
  // However long ago the last one was kept: there is one for this time now.
  await sampled()
  const { everyMs, points } = await client.series({ minutes: 5 })
  expect(everyMs).toBe(10_000)
  const first = points.find(({ lanes }) => lanes.some(({ name }) => name === 'interactive'))
  expect(first?.at).toBeInstanceOf(Date)
  // Kept once in ten seconds, however often the duty is done; the server does it too, perhaps in this moment.
  const count = async () => (await client.series({ minutes: 5 })).points.length
  await until(async () => {
    const before = await count()
    await sampled()
    return (await count()) === before
  }, 'the duty to be done without another point')
})

test('streams the history of devices', async () => {
  const client = new SluiceClient({ server: server.url, key: viewer })
  const { devices } = await client.deviceHistory({ minutes: 5 })
  expect(devices).toMatchObject([{ budget: 'licences', key: '', capacity: 3, spans: [] }])
  expect(devices[0]!.points[0]).toMatchObject({ at: expect.any(Date), held: 0 })
  expect((await client.deviceHistory({ minutes: 5, points: 0 })).devices[0]!.points).toEqual([])
})

test('the line of failures is made of the jobs that their number counts, whether anybody looked then or not', async () => {
  const client = new SluiceClient({ server: server.url, key: operator })
  await expect((await client.submit('bad', 1)).result()).rejects.toMatchObject({ code: 'JOB_FAILED' })
  // One within the line, and one before it.
  await database.sql(
    `insert into sluice.jobs (task, class_id, state, error, submitted_at, finished_at)
     select 'bad', class_id, 'failed', 'oh', clock_timestamp() - t.ago, clock_timestamp() - t.ago
       from sluice.tasks, (values (interval '130 s'), (interval '20 minutes')) t(ago) where name = 'bad'`,
  )
  await database.sql('delete from sluice.snapshots')
  const { points, failures } = await client.series({ minutes: 5 })
  const { failedPerMinute, failedLastHour } = await readNow(server.app.services.calls)
  expect([points.length, failures.length]).toEqual([0, 5])
  expect(failures[2]!.failed).toBeGreaterThan(0)
  const drawn = failures.reduce((sum, { failed }) => sum + failed!, 0)
  expect(drawn).toBeGreaterThanOrEqual(failedPerMinute)
  expect(drawn + 1).toBe(failedLastHour)
})

test('jobs inside workflows that wait for somebody to approve them can be listed', async () => {
  const { id } = await server.app.submit('asks', {})
  const client = new SluiceClient({ server: server.url, key: viewer })
  const waiting = await until(async () => {
    const page = await client.listJobsPage({ status: ['awaiting_approval'], children: true })
    return page.jobs.length > 0 && page.jobs
  }, 'a job that awaits approval')
  expect(waiting).toMatchObject([
    { rootId: id, workflow: 'asks', step: 'gated', status: 'awaiting_approval' },
  ])
  expect((await client.why(id)).reason).toContain(`; job ${waiting[0]!.id} (gated) waits for approval`)
  expect((await client.listJobsPage({ status: ['awaiting_approval'] })).jobs).toEqual([])
  const { states, steps } = await readNow(server.app.services.calls)
  expect([states.awaiting_approval, steps.awaiting_approval]).toEqual([0, 1])
  expect(steps).toMatchObject({ scheduled: 0, retrying: 0, queued: 0, running: 0 })
})

test('what was put right can be read, with jobs and totals', async () => {
  await database.sql(
    `insert into sluice.recoveries (kind, worker, lane, jobs, requeued, job_ids)
     values ('taken_over', 'ghost', 'default', 1, 1, '{7}'), ('late_write', 'ghost', null, 1, 0, '{7}')`,
  )
  const client = new SluiceClient({ server: server.url, key: viewer })
  const { events, lastHour, next } = await client.recovery({ kind: 'taken_over', limit: 5 })
  expect(events).toMatchObject([
    { kind: 'taken_over', worker: 'ghost', lane: 'default', jobs: 1, requeued: 1, failed: 0 },
  ])
  expect([events[0]!.jobIds.length, lastHour.taken_over, lastHour.drift, next]).toEqual([1, 1, 0, null])
})
