import { Agent, request } from 'node:http'
import { expect, onTestFinished, test } from 'vitest'
import { task } from '../../src/index.ts'
import { useDatabase } from '../support/database.ts'
import { EventReader } from '../support/event-reader.ts'
import { useServer } from '../support/http-server.ts'
import { holdAdmissionLock } from '../support/state/admission.ts'
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
  const bulks = Array.from({ length: 8 }, async () => {
    const { status } = await server.call('POST', '/jobs/bulk', { key: greedy, body: { jobs } })
    done++
    return status
  })
  await until(async () => (await countLockWaiters(database.sql)) === 2, 'two of them to wait for the lock')
  for (let n = 0; n < 5; n++) {
    expect((await server.call('GET', '/jobs?limit=1', { key: modest })).status).toBe(200)
    expect((await server.at('GET', '/readyz')).status).toBe(200)
  }
  expect([done, await countLockWaiters(database.sql)]).toEqual([0, 2])
  await release()
  expect(await Promise.all(bulks)).toEqual(Array(8).fill(202))
})

test('four hundred streams with one key: a hundred are opened, and somebody else hears of a change as ever', async () => {
  const greedy = await server.keyOf('viewer', 'greedy')
  const modest = await server.keyOf('submitter', 'modest')
  const own = new EventReader(server.url, '/live?jobs=true', modest)
  onTestFinished(() => own.close())
  await own.until('the list', ({ last }) => last?.event === 'jobs')
  const opened = await Promise.all(
    Array.from({ length: 400 }, (_, n) =>
      new EventReader(server.url, `/live?jobs=true&now=false&error=${n}`, greedy).opened(),
    ),
  )
  onTestFinished(() => {
    for (const reader of opened) reader.close()
  })
  const refused = opened.filter(({ status }) => status === 429)
  expect(opened.filter(({ status }) => status === 200).length).toBe(100)
  expect(refused.length).toBe(300)
  await refused[0]!.ended()
  expect(JSON.parse(refused[0]!.body)).toMatchObject({ code: 'TOO_MANY_REQUESTS', retryAfter: 10 })

  const startedAt = performance.now()
  for (let n = 0; n < 3; n++) {
    const body = { task: 'echo', input: n, runAt: '1h' }
    const { id } = (await server.call('POST', '/jobs', { key: modest, body })).json<{ id: string }>()
    await own.until('its job', ({ last }) => last!.data.jobs[0]?.id === id)
  }
  // Three seconds where nothing else runs. A look at every list before its own took it ten times as long.
  expect(performance.now() - startedAt).toBeLessThan(15_000)
  // A stream that was closed makes room for another.
  opened.find(({ status }) => status === 200)!.close()
  await until(async () => {
    const again = await new EventReader(server.url, '/live?jobs=true&now=false', greedy).opened()
    onTestFinished(() => again.close())
    return again.status === 200
  }, 'room for another stream')
})

test('requests whose clients have left keep their share until their work is done, and then give it back', async () => {
  const key = await server.keyOf('viewer', 'hasty')
  const lock = await lockTable(database.directUrl, 'jobs')
  const agent = new Agent({ maxSockets: 200 })
  const headers = { authorization: `Bearer ${key}` }
  const sent = Array.from({ length: 80 }, () =>
    request(`${server.url}/api/v1/jobs`, { agent, headers }).on('error', () => {}),
  )
  for (const each of sent) each.end()
  await until(
    async () => (await countLockWaiters(database.sql)) === 4,
    'all connections to wait for the lock',
  )
  for (const each of sent) each.destroy()
  const next = server.call('GET', '/jobs?limit=1', { key })
  await lock.release()
  expect((await next).status).toBe(200)
})
