import { afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import type { WhyBody } from '../../src/api/job-why.ts'
import { statement } from '../../src/db/database.ts'
import { task } from '../../src/index.ts'
import { readSnapshot } from '../../src/store/read-snapshot.ts'
import { sampleQueues } from '../../src/store/sample-queues.ts'
import { useDatabase } from '../support/database.ts'
import { EventReader } from '../support/event-reader.ts'
import { useServer } from '../support/http-server.ts'
import {
  plantAssigned,
  plantHolder,
  plantRecall,
  plantStarts,
  removeHolder,
} from '../support/state/assigned.ts'
import { forgetJobs } from '../support/state/jobs.ts'
import { until } from '../support/until.ts'

// A worker that is assigned jobs starts them within milliseconds. Here one is planted that does nothing.

const act = task({ name: 'act', lane: 'narrow', run: (_: unknown) => null })
const database = useDatabase()
const server = useServer(database, { tasks: [act], lanes: { narrow: { slots: 2 } } })
const readers: EventReader[] = []
let key = ''
let worker = ''
/** One that runs, two that are assigned, one in the queue. */
let jobs: readonly string[] = []

beforeAll(async () => {
  key = await server.keyOf('operator', 'olga')
})
beforeEach(async () => {
  jobs = (await server.app.submitMany(act, [1, 2, 3, 4])).map(({ id }) => id)
  worker = await plantHolder(database.sql, 'gpu-1', 'narrow')
  await plantAssigned(database.sql, worker, jobs.slice(0, 3), 1)
})
afterEach(async () => {
  for (const reader of readers.splice(0)) reader.close()
  await removeHolder(database.sql, worker)
  await forgetJobs(database.sql)
})

const [FIRST, SECOND, THIRD, FOURTH] = [0, 1, 2, 3]
const at = (...places: number[]) => places.map((place) => jobs[place]!)

async function get<T>(path: string): Promise<T> {
  const answer = await server.call('GET', path, { key })
  expect([answer.status, answer.text]).toEqual([200, expect.any(String)])
  return answer.json<T>()
}

async function listed(filter: string): Promise<string[]> {
  const { jobs: found } = await get<{ jobs: { id: string }[] }>(`/jobs?${filter}`)
  return found.map(({ id }) => id).reverse()
}

test('why names the worker that an assigned job waits for', async () => {
  const told = await get<WhyBody>(`/jobs/${jobs[SECOND]}/why`)
  const reason = 'it is assigned to worker gpu-1 and starts when one of its slots is free'
  expect(told).toMatchObject({
    status: 'queued',
    wait: { kind: 'assigned', lane: 'narrow', limit: null, until: null },
    reason,
    position: null,
    estimateSeconds: null,
    holders: [],
    words: [`job ${jobs[SECOND]} (act) is queued: ${reason}`],
  })
  expect((await server.app.why(jobs[THIRD]!)).wait.kind).toBe('assigned')
  expect((await server.app.why(jobs[FIRST]!)).reason).toBe('it is not waiting: it runs on gpu-1')
  expect((await server.app.why(jobs[FOURTH]!)).wait.kind).not.toBe('assigned')
})

test('why names only jobs that run as holders of a slot', async () => {
  const { holders } = await server.app.why(jobs[FOURTH]!)
  expect(holders.every(({ jobId }) => jobId === jobs[FIRST])).toBe(true)
})

test('assigned jobs of the lane come before a job that is still in the queue', async () => {
  expect((await server.app.why(jobs[FOURTH]!)).position).toBe(3)
  await plantRecall(database.sql, worker)
  expect((await server.app.why(jobs[FOURTH]!)).position).toBe(3)
})

test('lists show an assigned job as queued', async () => {
  expect(await listed('status=running')).toEqual(at(FIRST))
  expect(await listed('status=queued')).toEqual(at(SECOND, THIRD, FOURTH))
  expect(await listed('status=queued&waits=turn')).toEqual(at(SECOND, THIRD, FOURTH))
  expect(await listed('status=queued&task=act&lane=narrow')).toEqual(at(SECOND, THIRD, FOURTH))
  expect(await listed('status=queued,running')).toEqual(at(FIRST, SECOND, THIRD, FOURTH))
  expect(await listed('status=queued&task=other')).toEqual([])
  expect(await listed('status=completed')).toEqual([])
  const [page] = (await server.app.listJobs({ ids: at(SECOND) })).slice(0, 1)
  expect(page).toMatchObject({ status: 'queued', worker: 'gpu-1', startedAt: null })
})

const LIST = statement('probe_list', 'select ids, next from sluice.list_jobs_v1($1, $2, 10, $3)')

async function listAll(filter: object, look: number): Promise<string[]> {
  type Page = { ids: string[]; next: string | null }
  const found: string[] = []
  let before: string | null = null
  do {
    const pages: Page[] = await server.app.services.db.run<Page>(LIST, [JSON.stringify(filter), before, look])
    found.push(...pages[0]!.ids)
    before = pages[0]!.next
  } while (before !== null)
  return found.reverse()
}

// With a look of 1 there are too many of each state to sort: all jobs are read downwards instead, one on each page.
test.for([1, 1000])('a list finds assigned jobs by their state with a look of %i', async (look) => {
  const list = (filter: object) => listAll(filter, look)
  expect(await list({ states: ['ready'] })).toEqual(at(SECOND, THIRD, FOURTH))
  expect(await list({ states: ['running'] })).toEqual(at(FIRST))
  expect(await list({ states: ['ready', 'running'] })).toEqual(jobs)
  expect(await list({ states: ['scheduled'] })).toEqual([])
  expect(await list({ states: ['ready'], again: false })).toEqual(at(SECOND, THIRD, FOURTH))
  expect(await list({ states: ['running'], again: false })).toEqual(at(FIRST))
  expect(await list({ states: ['ready', 'running'], again: true })).toEqual([])
  expect(await list({ again: false })).toEqual(jobs)
})

test.for([1, 1000])('a list without jobs that run finds assigned jobs with a look of %i', async (look) => {
  const list = (filter: object) => listAll({ ...filter, unstarted: true }, look)
  expect(await list({ states: ['ready', 'running'] })).toEqual(at(SECOND, THIRD, FOURTH))
  expect(await list({ states: ['ready'] })).toEqual(at(SECOND, THIRD, FOURTH))
  expect(await list({ states: ['running'] })).toEqual([])
  expect(await list({ states: ['ready', 'running'], again: false })).toEqual(at(SECOND, THIRD, FOURTH))
  expect(await list({ states: ['ready', 'running'], again: true })).toEqual([])
  expect(await list({})).toEqual(at(SECOND, THIRD, FOURTH))
  const composite = await plantRunningComposite()
  expect(await list({ states: ['running'] })).toEqual([composite])
  expect(await list({ states: ['ready', 'running'] })).toEqual([...at(SECOND, THIRD, FOURTH), composite])
})

/** A fan-out that runs and has no children. */
async function plantRunningComposite(): Promise<string> {
  await database.sql(`insert into sluice.graphs (hash, body) values ('fan', '{}') on conflict do nothing`)
  const [fan] = await database.sql<{ id: string }>(
    `insert into sluice.job_data (task, composite) values ('fan', 'fanout') returning id`,
  )
  await database.sql(
    `insert into sluice.composites (job_id, graph, node, depth, total, completed, started_at) values ($1, 'fan', 'fan', 0, 1, 0, now())`,
    [fan!.id],
  )
  return fan!.id
}

test('counts agree with the lists, and the depth of a lane is what waits for a worker', async () => {
  const { states, lanes, workers } = await readSnapshot(server.app.services.db)
  expect(states).toMatchObject({ queued: 3, running: 1 })
  expect(lanes.find(({ name }) => name === 'narrow')).toMatchObject({ depth: 1, assigned: 2, running: 1 })
  expect(workers.running).toBe(1)
  const samples = await server.app.sampleQueues()
  expect(samples.filter(({ lane }) => lane === 'narrow')).toMatchObject([{ depth: 1 }])
})

test('lanes, workers and metrics count assigned jobs beside those that run', async () => {
  expect((await server.app.listLanes()).find(({ name }) => name === 'narrow')).toMatchObject({
    running: 1,
    assigned: 2,
  })
  expect((await server.app.listLanes()).find(({ name }) => name === 'default')).toMatchObject({ assigned: 0 })
  const { workers } = await get<{ workers: object[] }>('/admin/workers/status')
  expect(workers).toMatchObject([{ name: 'gpu-1', running: 1, assigned: 2, jobs: [{ id: jobs[FIRST] }] }])
  await sampleQueues(server.app.services.db)
  const { text } = await server.at('GET', '/metrics', { key })
  expect(text).toMatch(/^sluice_lane_running\{lane="narrow"\} 1$/m)
  expect(text).toMatch(/^sluice_lane_assigned\{lane="narrow"\} 2$/m)
  expect(text).toMatch(/^sluice_lane_depth\{lane="narrow"\} 1$/m)
})

function stream(id: string, lastEventId?: string): EventReader {
  const reader = new EventReader(server.url, `/jobs/${id}/stream`, key, lastEventId)
  readers.push(reader)
  return reader
}

const told = (reader: EventReader) =>
  reader.events.filter(({ event }) => event === 'state').map(({ data }) => [data.status, data.worker])

test('a stream reports that an assigned job starts', async () => {
  const id = jobs[SECOND]!
  const reader = await stream(id).until('its state', (r) => told(r).length === 1)
  await plantStarts(database.sql, worker, [id])
  await reader.until('its start', (r) => told(r).length === 2)
  expect(told(reader)).toEqual([
    ['queued', 'gpu-1'],
    ['running', 'gpu-1'],
  ])
})

test('a stream that resumes reports what happened to an assigned job meanwhile', async () => {
  const [started, back] = at(SECOND, THIRD) as [string, string]
  const seen = await Promise.all(
    [started, back].map((id) => stream(id).until('its state', (r) => told(r).length === 1)),
  )
  for (const reader of seen) reader.close()
  await plantStarts(database.sql, worker, [started])
  await plantRecall(database.sql, worker)
  const states = await Promise.all(
    [started, back].map(async (id, n) =>
      told(await stream(id, seen[n]!.events.at(-1)!.id).until('its state', (r) => told(r).length === 1)),
    ),
  )
  expect(states).toEqual([[['running', 'gpu-1']], [['queued', null]]])
})

test('a job that becomes assigned keeps its stream', async () => {
  const id = jobs[FOURTH]!
  const reader = await stream(id).until('its state', (r) => told(r).length === 1)
  await plantAssigned(database.sql, worker, [id])
  await until(() => told(reader).length === 2, 'it to be assigned')
  expect(told(reader)).toEqual([
    ['queued', null],
    ['queued', 'gpu-1'],
  ])
})

test('a job that is assigned when it is cancelled is queued until its worker has dropped it', async () => {
  const cancel = async (id: string) => {
    const { status, json } = await server.call('DELETE', `/jobs/${id}?only=cancel`, { key })
    return [status, json()]
  }
  const [runs, assigned, , waits] = jobs as [string, string, string, string]
  expect(await cancel(runs)).toEqual([202, { id: runs, deleted: false, status: 'running' }])
  expect(await cancel(assigned)).toEqual([202, { id: assigned, deleted: false, status: 'queued' }])
  expect(await get(`/jobs/${assigned}`)).toMatchObject({ status: 'queued' })
  expect(await cancel(waits)).toEqual([200, { id: waits, deleted: false, status: 'cancelled' }])
})

test('a bulk change of priorities includes assigned jobs and leaves out those that run', async () => {
  const body = { action: 'priority', priority: 7, filter: { task: 'act' } }
  const act = async (more = {}) => {
    const { status, json } = await server.call('POST', '/jobs/actions', { key, body: { ...body, ...more } })
    return [status, json()]
  }
  expect(await act({ dryRun: true })).toEqual([200, { matched: 3, changed: 0, refused: [], next: null }])
  expect(await act()).toEqual([200, { matched: 3, changed: 3, refused: [], next: null }])
  const priorities = await Promise.all(jobs.map(async (id) => (await server.app.getJob(id)).priority))
  expect(priorities).toEqual([0, 7, 7, 7])
  const audits = await database.sql<{ target: string }>(
    `select target from sluice.audit where action = 'job.priority' and target = any ($1) order by target`,
    [jobs.map((id) => `job ${id}`)],
  )
  expect(audits.map(({ target }) => target)).toEqual(
    at(SECOND, THIRD, FOURTH)
      .map((id) => `job ${id}`)
      .sort(),
  )
  // The new priority counts when a job goes back to the queue.
  await plantRecall(database.sql, worker)
  expect(await database.sql('select id, rank from sluice.queue order by id')).toEqual(
    at(SECOND, THIRD, FOURTH).map((id) => ({ id, rank: -7 })),
  )
})

test('reprioritiseMany changes assigned jobs when only queued jobs are meant', async () => {
  expect(await server.app.reprioritiseMany({ status: ['queued'] }, 3)).toMatchObject({
    matched: 3,
    changed: 3,
  })
  expect(await server.app.reprioritiseMany({ status: ['running'] }, 4)).toMatchObject({
    matched: 0,
    changed: 0,
  })
  expect((await server.app.getJob(jobs[SECOND]!)).priority).toBe(3)
})

test('a bulk cancel tells assigned jobs from running ones, as the audit shows', async () => {
  expect(
    await database.sql(
      `select id, before::text, after::text from sluice.cancel_jobs_v1($1, 'x') order by id`,
      [jobs],
    ),
  ).toEqual([
    { id: jobs[FIRST], before: 'running', after: 'running' },
    ...at(SECOND, THIRD).map((id) => ({ id, before: 'ready', after: 'ready' })),
    { id: jobs[FOURTH], before: 'ready', after: 'cancelled' },
  ])
})
