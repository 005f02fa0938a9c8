import { afterEach, beforeAll, expect, test } from 'vitest'
import { type Flow, task, workflow } from '../../src/index.ts'
import { useDatabase } from '../support/database.ts'
import { EventReader, type ReadEvent } from '../support/event-reader.ts'
import { Gate } from '../support/gate.ts'
import { startTestServer, type TestServer, useServer } from '../support/http-server.ts'
import { until } from '../support/until.ts'

const gates = new Map<string, Gate>()
const gateOf = (name: string) => {
  if (!gates.has(name)) gates.set(name, new Gate())
  return gates.get(name)!
}
/** Logs before and after its gate, so that a test can be in the middle of it. */
const talk = task({
  name: 'talk',
  run: async (input: { gate?: string; lines: number }, ctx) => {
    for (let n = 1; n <= input.lines; n++) ctx.log.info(`line ${n}`)
    ctx.progress(0.5, 'half')
    if (input.gate !== undefined) await gateOf(input.gate).pass()
    for (let n = 1; n <= input.lines; n++) ctx.log.info(`late ${n}`)
    return 'said'
  },
})
const chatter = task({
  name: 'chatter',
  run: async (input: { n: number }, ctx) => {
    ctx.log.info(`item ${input.n}`)
    return input.n
  },
})
const talks = workflow({
  name: 'talks',
  steps: (flow: Flow<{ gate: string }>) => {
    const first = flow.step('first', talk, { lines: 2, gate: flow.input.gate })
    flow.each('each', [1, 2, 3, 4, 5], chatter, (item) => ({ n: item }), { needs: [first], concurrency: 2 })
  },
})

const rattle = task({
  name: 'rattle',
  run: async (input: { n: number }, ctx) => {
    for (let n = 0; n < 8; n++) {
      ctx.log.info(`${input.n}.${n}`)
      await new Promise((resolve) => setTimeout(resolve, (input.n * 7 + n) % 40))
    }
  },
})
const busy = workflow({
  name: 'busy',
  steps: (flow: Flow<unknown>) => {
    flow.each(
      'each',
      Array.from({ length: 60 }, (_, n) => n),
      rattle,
      (item) => ({ n: item }),
      { concurrency: 12 },
    )
  },
})
const wide = workflow({
  name: 'wide',
  steps: (flow: Flow<unknown>) => {
    flow.each(
      'each',
      Array.from({ length: 201 }, (_, n) => n),
      chatter,
      (item) => ({ n: item }),
    )
  },
})

const options = { tasks: [talk, chatter, rattle], workflows: [talks, wide, busy] }
const database = useDatabase()
const server = useServer(database, options)
let key = ''
const readers: EventReader[] = []

beforeAll(async () => {
  key = await server.keyOf('operator', 'olga')
  await server.app.work({ capacity: 8 })
})
afterEach(() => {
  for (const reader of readers.splice(0)) reader.close()
})

function read(path: string, lastEventId?: string, from: TestServer = server, as = key): EventReader {
  const reader = new EventReader(from.url, path, as, lastEventId)
  readers.push(reader)
  return reader
}

test('streams a job from its log lines to its end, and then ends', async () => {
  const job = await server.app.submit(talk, { lines: 3, gate: 'one' })
  await gateOf('one').arrived()
  const reader = await read(`/jobs/${job.id}/stream`).until('progress', (r) =>
    r.events.some(({ event }) => event === 'progress'),
  )
  gateOf('one').open()
  await reader.ended()

  expect(reader.headers['content-type']).toBe('text/event-stream; charset=utf-8')
  expect(reader.headers['x-content-type-options']).toBe('nosniff')
  expect(reader.lines()).toEqual(['line 1', 'line 2', 'line 3', 'late 1', 'late 2', 'late 3'])
  expect(reader.statuses(job.id)).toEqual(['running', 'completed'])
  expect(reader.events.find(({ event }) => event === 'progress')!.data).toEqual({
    id: job.id,
    progress: 0.5,
    message: 'half',
  })
  expect(reader.last).toMatchObject({ event: 'end', data: { id: job.id, status: 'completed', error: null } })
  const order = reader.events.map(({ event, data }) => (event === 'state' ? data.status : event))
  expect(order.indexOf('completed')).toBeGreaterThan(order.lastIndexOf('log'))
})

test('streams an ended job from its beginning, and nothing after the end', async () => {
  const job = await server.app.submit(talk, { lines: 2 })
  await job.result()
  const reader = await read(`/jobs/${job.id}/stream`).ended()
  expect(reader.lines()).toEqual(['line 1', 'line 2', 'late 1', 'late 2'])
  expect(reader.statuses(job.id)).toEqual(['completed'])
  const again = await read(`/jobs/${job.id}/stream`, reader.last!.id).ended()
  expect([again.status, again.events]).toEqual([204, []])
  const quiet = await read(`/jobs/${job.id}/stream?logs=false`).ended()
  expect(quiet.events.map(({ event }) => event)).toEqual(['state', 'progress', 'end'])
})

test('a client that was cut off at any event continues at another server without a gap or a repeat', async () => {
  const other = await startTestServer(database.url, options)
  try {
    const job = await server.app.submit(talk, { lines: 4 })
    await job.result()
    const whole = (await read(`/jobs/${job.id}/stream`).ended()).events
    for (let cut = 0; cut < whole.length - 1; cut++) {
      const rest = await read(`/jobs/${job.id}/stream`, whole[cut]!.id, other).ended()
      expect(rest.events.map(({ event, data }) => [event, data])).toEqual(
        whole.slice(cut + 1).map(({ event, data }) => [event, data]),
      )
    }
  } finally {
    await other.stop()
  }
})

test('a reader that changes servers all the time hears everything once', async () => {
  const other = await startTestServer(database.url, options)
  try {
    const lines = 300
    const job = await server.app.submit(talk, { lines, gate: 'hop' })
    await gateOf('hop').arrived()
    const heard: [string, unknown][] = []
    let last: string | undefined
    for (let hop = 0; heard.at(-1)?.[0] !== 'end'; hop++) {
      const reader = read(`/jobs/${job.id}/stream`, last, hop % 2 === 0 ? other : server)
      if (hop === 1) gateOf('hop').open()
      await reader.until('some events', (r) => r.events.length > hop || r.closed)
      reader.close()
      for (const { event, data } of reader.events) heard.push([event, data])
      last = reader.last?.id ?? last
    }
    const told = heard.filter(([event]) => event === 'log').map(([, data]) => (data as { line: string }).line)
    const expected = Array.from({ length: lines }, (_, n) => n + 1)
    expect(told).toEqual([...expected.map((n) => `line ${n}`), ...expected.map((n) => `late ${n}`)])
    const states = heard.filter(([event]) => event === 'state').map(([, data]) => JSON.stringify(data))
    expect(new Set(states).size).toBe(states.length)
    expect(JSON.parse(states.at(-1)!)).toMatchObject({ status: 'completed' })
  } finally {
    await other.stop()
  }
})

test('streams a tree with all descendants, each to its end, and resumes at any event', async () => {
  const job = await server.app.submit(talks, { gate: 'tree' })
  await gateOf('tree').arrived()
  const reader = await read(`/jobs/${job.id}/stream?tree=true`).until('the first lines', (r) =>
    r.lines().includes('line 2'),
  )
  gateOf('tree').open()
  await reader.ended()
  const jobs = new Map(
    reader.events.filter(({ event }) => event === 'state').map(({ data }) => [data.id, data]),
  )
  expect([...jobs.values()].map(({ status }) => status)).toEqual(Array(8).fill('completed'))
  expect([...jobs.values()].filter(({ kind }) => kind === 'fanout')).toHaveLength(1)
  expect(
    reader
      .lines()
      .filter((line) => line.startsWith('item'))
      .sort(),
  ).toEqual([1, 2, 3, 4, 5].map((n) => `item ${n}`))
  expect(reader.last).toMatchObject({ event: 'end', data: { status: 'completed' } })

  const whole = (await read(`/jobs/${job.id}/stream?tree=true`).ended()).events
  for (const cut of [0, 3, 7, 9, 12, whole.length - 3, whole.length - 2]) {
    const rest = await read(`/jobs/${job.id}/stream?tree=true`, whole[cut]!.id).ended()
    expect(rest.events.map(({ event, data }) => [event, data])).toEqual(
      whole.slice(cut + 1).map(({ event, data }) => [event, data]),
    )
  }
})

test('of a busy tree on two workers, a reader that changes servers hears every line and every ending once', async () => {
  const other = await startTestServer(database.url, options)
  try {
    await other.app.work({ capacity: 8 })
    const job = await server.app.submit(busy, {})
    const heard: ReadEvent[] = []
    for (let hop = 0; heard.at(-1)?.event !== 'end'; hop++) {
      const from = hop % 2 === 0 ? other : server
      const reader = read(`/jobs/${job.id}/stream?tree=true`, heard.at(-1)?.id, from)
      await reader.until('some events', (r) => r.events.length > 30 + hop * 10 || r.closed)
      reader.close()
      heard.push(...reader.events)
    }
    const told = heard.filter(({ event }) => event === 'log').map(({ data }) => data.id as string)
    const stored = await database.sql<{ id: string }>(
      `select l.id from sluice.logs l join sluice.jobs j on j.id = l.job_id where j.root_id = $1 order by l.id`,
      [job.id],
    )
    expect(stored).toHaveLength(60 * 8)
    expect(told).toEqual(stored.map(({ id }) => id))
    const states = heard.filter(({ event }) => event === 'state').map(({ data }) => JSON.stringify(data))
    expect(new Set(states).size).toBe(states.length)
    const ends = heard.filter(({ event, data }) => event === 'state' && data.status === 'completed')
    expect(new Set(ends.map(({ data }) => data.id)).size).toBe(62)
    expect(ends).toHaveLength(62)
  } finally {
    await other.stop()
  }
})

test('counts the children of a wide fan-out instead of streaming each', async () => {
  const job = await server.app.submit(wide, {})
  await job.result()
  const reader = await read(`/jobs/${job.id}/stream?tree=true`).ended()
  const states = reader.events.filter(({ event }) => event === 'state').map(({ data }) => data)
  expect(states.map(({ kind, status }) => [kind, status])).toEqual([
    ['workflow', 'completed'],
    ['fanout', 'completed'],
  ])
  expect(reader.events.filter(({ event }) => event === 'progress').map(({ data }) => data)).toEqual([
    { id: states[1].id, total: 201, completed: 201, failed: 0, cancelled: 0 },
  ])
  expect(reader.lines()).toEqual([])
})

test('lines that are committed late come in their order, with nothing left out', async () => {
  const job = await server.app.submit(talk, { lines: 1, gate: 'late' })
  await gateOf('late').arrived()
  const reader = await read(`/jobs/${job.id}/stream`).until('the first line', (r) => r.lines().length === 1)
  const insert = (line: string) =>
    `insert into sluice.logs (job_id, attempt, at, level, line) values (${job.id}, 1, now(), 'info', '${line}')`
  await database.sql('begin')
  await database.sql(insert('slow'))
  const pg = await import('pg')
  const fast = new pg.default.Client(database.url)
  await fast.connect()
  await fast.query(insert('fast'))
  await fast.end()
  await server.app.services.db.run({ name: '', text: `select pg_notify('sluice', 'ready')` })
  // The server has looked while the slow one was on its way: it was seen to wait for it.
  await until(
    async () =>
      (
        await database.admin<{ n: number }>(
          `select count(*)::integer as n from pg_stat_activity where datname = current_database() and query like '%log_bound_v1%' and query_start > now() - interval '1 s'`,
        )
      )[0]!.n > 0,
    'a look',
  )
  expect(reader.lines()).toEqual(['line 1'])
  await database.sql('commit')
  await reader.until('both lines', (r) => r.lines().length === 3)
  expect(reader.lines()).toEqual(['line 1', 'slow', 'fast'])
  gateOf('late').open()
  await reader.ended()
})

test('a server that stops ends its streams, and its readers go on at another', async () => {
  const other = await startTestServer(database.url, options)
  const job = await server.app.submit(talk, { lines: 2, gate: 'stop' })
  await gateOf('stop').arrived()
  const first = await read(`/jobs/${job.id}/stream`, undefined, other).until(
    'its lines',
    (r) => r.lines().length === 2 && r.events.some(({ event }) => event === 'progress'),
  )
  await other.stop()
  await first.ended()
  expect(first.events.some(({ event }) => event === 'end')).toBe(false)
  gateOf('stop').open()
  const second = await read(`/jobs/${job.id}/stream`, first.last!.id).ended()
  expect(second.lines()).toEqual(['late 1', 'late 2'])
  expect(second.last).toMatchObject({ event: 'end', data: { status: 'completed' } })
})

test('a job that is deleted while it is watched ends the stream', async () => {
  const job = await server.app.submit(talk, { lines: 0 }, { runAt: '1h' })
  const reader = await read(`/jobs/${job.id}/stream`).until('its state', (r) => r.events.length > 0)
  expect(reader.statuses(job.id)).toEqual(['queued'])
  await database.sql(`delete from sluice.jobs where id = $1`, [job.id])
  await reader.ended()
  expect(reader.last).toMatchObject({ event: 'end', data: { id: job.id, status: 'deleted' } })
})

test('streams are only for those who may see the job, and bad positions are refused', async () => {
  const other = await server.keyOf('submitter', 'eve')
  const job = await server.app.submit(talk, { lines: 1 })
  const foreign = await read(`/jobs/${job.id}/stream`, undefined, server, other).ended()
  expect(foreign.status).toBe(404)
  const bad = await read(`/jobs/${job.id}/stream`, 'garbage').ended()
  expect([bad.status, JSON.parse(bad.body).code]).toEqual([400, 'INVALID_ARGUMENT'])
})

test('a revoked key ends its streams within seconds', async () => {
  const job = await server.app.submit(talk, { lines: 0 }, { runAt: '1h' })
  const revoked = await server.keyOf('viewer', 'leaver')
  const reader = await read(`/jobs/${job.id}/stream`, undefined, server, revoked).until(
    'its state',
    (r) => r.events.length > 0,
  )
  await database.sql(`update sluice.api_keys set revoked_at = now() where name = 'leaver'`)
  await reader.ended()
  expect(reader.last).toMatchObject({ event: 'denied', data: { code: 'UNAUTHENTICATED' } })
  await server.app.cancel(job.id)
})
