import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { useDatabase } from '../support/database.ts'
import { startProxy, type TcpProxy } from '../support/tcp-proxy.ts'

const database = useDatabase()
let proxy: TcpProxy

beforeAll(async () => {
  proxy = await startProxy(database.directUrl)
})
afterAll(() => proxy.close())

async function connected(name: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: proxy.url, application_name: name })
  client.on('error', () => {})
  await client.connect()
  return client
}

test('passes bytes on, knows each connection by its name and forgets those that left', async () => {
  const client = await connected('passing')
  expect((await client.query('select 1 as one')).rows).toEqual([{ one: 1 }])
  expect(proxy.connections('passing')).toHaveLength(1)
  await client.end()
  await expect.poll(() => proxy.connections('passing').length).toBe(0)
})

test('cuts a connection so that both sides notice', async () => {
  const client = await connected('cutting')
  const ended = new Promise((resolve) => client.once('end', resolve))
  proxy.connections('cutting')[0]!.cut()
  await ended
  await expect.poll(() => backends('cutting')).toBe(0)
})

test('a black hole answers nothing and hides that the client left', async () => {
  const client = await connected('hole')
  proxy.connections('hole')[0]!.blackhole()
  await expect(client.query({ text: 'select 1', query_timeout: 100 } as pg.QueryConfig)).rejects.toThrow(
    'timeout',
  )
  ;(client as unknown as { connection: { stream: { destroy(): void } } }).connection.stream.destroy()
  await expect.poll(() => proxy.connections('hole').length).toBe(0)
  expect(await backends('hole')).toBe(1)
})

test('losing only the answers lets the server carry out what the client never hears of', async () => {
  await database.sql('create table heard (n int)')
  const client = await connected('deaf')
  proxy.connections('deaf')[0]!.blackhole('answers')
  await expect(
    client.query({ text: 'insert into heard values (1)', query_timeout: 100 } as pg.QueryConfig),
  ).rejects.toThrow('timeout')
  await expect.poll(() => database.sql('select n from heard')).toEqual([{ n: 1 }])
})

test('delays every byte and stays in order when the delay ends', async () => {
  const client = await connected('slow')
  const [connection] = proxy.connections('slow')
  const before = connection!.bytes.requests
  connection!.delay(150)
  const started = performance.now()
  const first = client.query('select 1')
  await expect.poll(() => connection!.bytes.requests, { interval: 1 }).toBeGreaterThan(before)
  const second = client.query('select 2 as two')
  connection!.delay(0)
  await first
  expect((await second).rows).toEqual([{ two: 2 }])
  expect(performance.now() - started).toBeGreaterThan(140)
  await client.end()
})

test('an observer of new connections may stop one before the server sees it', async () => {
  const unwatch = proxy.onConnect((connection) => {
    if (connection.applicationName === 'unwanted') connection.cut()
  })
  await expect(connected('unwanted')).rejects.toThrow()
  unwatch()
  await (await connected('unwanted')).end()
})

async function backends(name: string): Promise<number> {
  const [row] = await database.sql<{ n: number }>(
    'select count(*)::int as n from pg_stat_activity where application_name = $1',
    [name],
  )
  return row!.n
}
