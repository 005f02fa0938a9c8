import { Agent, request } from 'node:http'
import { connect } from 'node:net'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { setTimeout as delay } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { task } from '../../src/index.ts'
import { useDatabase } from '../support/database.ts'
import { EventReader } from '../support/event-reader.ts'
import { startTestServer, useServer } from '../support/http-server.ts'
import { holdAdmissionLock } from '../support/state/admission.ts'
import { plantInput } from '../support/state/jobs.ts'
import { countLockWaiters, lockTable } from '../support/state/tables.ts'
import { until } from '../support/until.ts'

const echo = task({ name: 'echo', run: (input: unknown) => input })
const database = useDatabase()
const server = useServer(database, { tasks: [echo], admission: { maxActive: 100_000 } })

test('bulk submissions with one key leave connections for everybody else, and /readyz has its own', async () => {
  const greedy = await server.keyOf('submitter', 'greedy')
  const modest = await server.keyOf('submitter', 'modest')
  const jobs = Array.from({ length: 1000 }, (_, n) => ({ task: 'echo', input: { n } }))
  const release = await holdAdmissionLock(database.directUrl)
  let done = 0
  const submit = async (key: string) => {
    const { status } = await server.call('POST', '/jobs/bulk', { key, body: { jobs } })
    done++
    return status
  }
  const bulks = Array.from({ length: 8 }, () => submit(greedy))
  await until(async () => (await countLockWaiters(database.sql)) === 2, 'two of them to wait for the lock')
  for (let n = 0; n < 5; n++)
    expect((await server.call('GET', '/jobs?limit=1', { key: modest })).status).toBe(200)
  expect([done, await countLockWaiters(database.sql)]).toEqual([0, 2])
  // Another key takes the others.
  bulks.push(submit(await server.keyOf('submitter')), submit(await server.keyOf('submitter')))
  await until(
    async () => (await countLockWaiters(database.sql)) === 4,
    'all connections to wait for the lock',
  )
  for (let n = 0; n < 3; n++) await expectReady()
  await release()
  let answered = 0
  while (done < bulks.length) {
    await expectReady()
    answered++
  }
  expect(answered, 'answers while they ran').toBeGreaterThan(0)
  expect(await Promise.all(bulks)).toEqual(Array(10).fill(202))
})

/** Makes the server ask the database again: it gives one answer to all who ask within 250 ms. */
async function expectReady(): Promise<void> {
  await delay(300)
  const lag = monitorEventLoopDelay({ resolution: 5 })
  lag.enable()
  const from = performance.now()
  expect((await server.at('GET', '/readyz')).status).toBe(200)
  const took = performance.now() - from
  lag.disable()
  // The server is part of this process: the longest time that the machine kept both from running is not its own.
  expect(took, 'time of /readyz').toBeLessThan(1000 + lag.max / 1e6)
}

test('a thousand filters with one key: a hundred streams are opened, and somebody else hears of a change as ever', async () => {
  const greedy = await server.keyOf('viewer', 'greedy')
  const modest = await server.keyOf('submitter', 'modest')
  const own = new EventReader(server.url, '/live?jobs=true', modest)
  onTestFinished(() => own.close())
  await own.until('the list', ({ last }) => last?.event === 'jobs')
  const changes = async () => {
    const startedAt = performance.now()
    for (let n = 0; n < 3; n++) {
      const body = { task: 'echo', input: n, runAt: '1h' }
      const { id } = (await server.call('POST', '/jobs', { key: modest, body })).json<{ id: string }>()
      await own.until('its job', ({ last }) => last!.data.jobs[0]?.id === id)
    }
    return performance.now() - startedAt
  }
  const before = await changes()
  const opened = await Promise.all(
    Array.from({ length: 1000 }, (_, n) =>
      new EventReader(server.url, `/live?jobs=true&now=false&error=${n}`, greedy).opened(),
    ),
  )
  onTestFinished(() => {
    for (const reader of opened) reader.close()
  })
  const refused = opened.filter(({ status }) => status === 429)
  expect(opened.filter(({ status }) => status === 200).length).toBe(100)
  expect(refused.length).toBe(900)
  await refused[0]!.ended()
  expect(JSON.parse(refused[0]!.body)).toMatchObject({ code: 'TOO_MANY_REQUESTS', retryAfter: 10 })

  // Three seconds each time, where nothing else runs. A look at every list before its own took it ten times as long.
  expect(await changes()).toBeLessThan(2 * before + 2000)
  // A stream that was closed makes room for another.
  opened.find(({ status }) => status === 200)!.close()
  await until(async () => {
    const again = await new EventReader(server.url, '/live?jobs=true&now=false', greedy).opened()
    onTestFinished(() => again.close())
    return again.status === 200
  }, 'room for another stream')
})

test('requests whose clients have left keep their share until their work is done; others go on beside them', async () => {
  const [hasty, modest] = [await server.keyOf('viewer', 'hasty'), await server.keyOf('viewer', 'calm')]
  const lock = await lockTable(database.directUrl, 'job_data')
  const agent = new Agent({ maxSockets: 200 })
  const headers = { authorization: `Bearer ${hasty}` }
  const sent = Array.from({ length: 80 }, () =>
    request(`${server.url}/api/v1/jobs`, { agent, headers }).on('error', () => {}),
  )
  for (const each of sent) each.end()
  await until(async () => (await countLockWaiters(database.sql)) === 2, 'two of them to wait for the lock')
  for (const each of sent) each.destroy()
  // Two connections are left to others, which is enough for what waits for no lock.
  for (let n = 0; n < 5; n++) expect((await server.call('GET', '/tasks', { key: modest })).status).toBe(200)
  expect(await countLockWaiters(database.sql)).toBe(2)
  const next = server.call('GET', '/jobs?limit=1', { key: hasty })
  await lock.release()
  expect((await next).status).toBe(200)
})

test('answers that are not read take the share of their key, and keep nobody else waiting', async () => {
  const key = await server.keyOf('viewer', 'silent')
  const { id } = await server.app.submit(echo, 1, { runAt: '1h' })
  // More than fits into the buffers of a connection.
  await plantInput(database.sql, id, 15_000_000)
  const answered = new Set<number>()
  const sockets = Array.from({ length: 6 }, (_, n) => {
    const socket = connect(Number(new URL(server.url).port), '127.0.0.1')
    onTestFinished(() => void socket.destroy())
    // The first bytes are read, and nothing after them.
    socket
      .on('error', () => {})
      .once('data', () => {
        answered.add(n)
        socket.pause()
      })
    const head = `GET /api/v1/jobs/${id} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${key}\r\n\r\n`
    socket.write(head)
    return socket
  })
  await until(() => answered.size === 4, 'four of them to be answered')
  // Others are answered meanwhile, and these are not more than before.
  const other = await server.keyOf('viewer', 'reader')
  for (let n = 0; n < 5; n++)
    expect((await server.call('GET', '/jobs?limit=1&status=running', { key: other })).status).toBe(200)
  expect(answered.size).toBe(4)
  for (const n of answered) sockets[n]!.destroy()
  await until(() => answered.size === 6, 'the others to be answered once these have gone')
})

test('more requests than may wait are refused, and say when to ask again', async () => {
  const small = await startTestServer(database.url, { tasks: [echo] }, { perKey: { atOnce: 1, waiting: 1 } })
  onTestFinished(() => small.stop())
  const key = await small.keyOf('viewer', 'eager')
  const lock = await lockTable(database.directUrl, 'job_data')
  const first = small.call('GET', '/jobs/999999999', { key })
  await until(async () => (await countLockWaiters(database.sql)) > 0, 'the first to wait for the lock')
  const both = [small.call('GET', '/jobs/999999999', { key }), small.call('GET', '/jobs/999999999', { key })]
  const refused = await Promise.race(both)
  expect(refused.status).toBe(429)
  expect(refused.headers['retry-after']).toBe('1')
  expect(refused.json()).toMatchObject({ code: 'TOO_MANY_REQUESTS' })
  await lock.release()
  expect([(await first).status, ...(await Promise.all(both)).map(({ status }) => status)].sort()).toEqual([
    404, 404, 429,
  ])
})
