import { availableParallelism } from 'node:os'
import { expect, onTestFinished, test } from 'vitest'
import { remoteWorker, task } from '../../src/index.ts'
import { useDatabase } from '../support/database.ts'
import { useServer } from '../support/http-server.ts'
import { readProcesses } from '../support/state/workers.ts'
import { workerKey } from '../support/through-server.ts'
import { until } from '../support/until.ts'

const database = useDatabase()
const server = useServer(database, { heartbeat: 1000, stale: 10_000 })
const inProcess = task({
  name: 'in-process',
  execution: 'process',
  module: new URL('../support/fixtures/process-tasks.mjs', import.meta.url).href,
  run: () => null,
})

function expectShares(shares: Readonly<Record<string, number>>): Promise<unknown> {
  return until(
    async () =>
      JSON.stringify(Object.fromEntries(await readProcesses(database.sql))) === JSON.stringify(shares),
    `the process pools to have ${JSON.stringify(shares)}`,
    60_000,
  )
}

test('workers behind a server share what the largest size of their host allows', async () => {
  const total = availableParallelism() + 3
  const key = await workerKey(server.app)
  const log = { debug() {}, info() {}, warn() {}, error() {} }
  const start = async (name: string, size: number) => {
    const worker = await remoteWorker({
      server: server.url,
      key,
      tasks: [inProcess],
      name,
      pool: { size },
      log,
    })
    onTestFinished(() => worker.close({ now: true }))
    return worker
  }
  const one = await start('one', total)
  await expectShares({ one: total })
  await start('two', 2)
  await expectShares({ one: total - 2, two: 2 })
  await one.close()
  await expectShares({ two: 2 })
})

test('a worker in any language asks for its share, gives back what it must, and hears when to ask again', async () => {
  const key = await workerKey(server.app)
  const register = async (name: string) => {
    const tasks = [{ name: 'job', pooled: true }]
    const body = { name, capacity: 1, cores: 4, host: 'elsewhere', processes: 4, tasks }
    return (await server.call('POST', '/workers', { key, body })).json<{ id: string }>().id
  }
  const ask = async (id: string, held: number) =>
    (await server.call('POST', `/workers/${id}/processes`, { key, body: { held } })).json<{ size: number }>()
      .size
  const shares = async (id: string) =>
    (await server.call('POST', `/workers/${id}/heartbeat`, { key })).json<{ shares: string }>().shares

  const first = await register('first')
  expect(await ask(first, 0)).toBe(4)
  const before = await shares(first)
  const second = await register('second')
  // It has none before the other one has fewer.
  expect(await ask(second, 0)).toBe(0)
  expect(await shares(first)).not.toBe(before)
  expect(await ask(first, 4)).toBe(2)
  expect(await ask(second, 0)).toBe(0)
  expect(await ask(first, 3)).toBe(2)
  expect(await ask(second, 0)).toBe(1)
  expect(await ask(first, 2)).toBe(2)
  expect(await ask(second, 1)).toBe(2)

  await server.call('POST', `/workers/${first}/close`, { key, body: {} })
  expect(await ask(second, 2)).toBe(4)
})
