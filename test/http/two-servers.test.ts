import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type SluiceOptions, task } from '../../src/index.ts'
import { useDatabase } from '../support/database.ts'
import { startTestServer, type TestServer } from '../support/http-server.ts'
import { until } from '../support/until.ts'

// Two servers over one database, and workers that are attached to one or the other.

const database = useDatabase()
const folder = mkdtempSync(join(tmpdir(), 'sluice-two-servers-'))
const file = join(folder, 'world.json')
const program = fileURLToPath(new URL('../support/fixtures/provisioner.mjs', import.meta.url))
const work = task({ name: 'work', run: (_: null) => null })
const OPTIONS: SluiceOptions = {
  tasks: [work],
  lanes: { default: { slots: null, perWorker: null } },
  fleet: {
    pools: { burst: { provisioner: 'command', options: { argv: [program, file] }, max: 3, cooldown: '0s' } },
  },
}
const servers: TestServer[] = []
let key: string

interface Worker {
  readonly id: string
  readonly server: TestServer
}

beforeAll(async () => {
  writeFileSync(file, JSON.stringify({ noRoomFor: [], instances: {} }))
  for (let i = 0; i < 2; i++) servers.push(await startTestServer(database.url, OPTIONS))
  key = await servers[0]!.keyOf('worker')
})
afterAll(async () => {
  await Promise.all(servers.map((server) => server.stop()))
  rmSync(folder, { recursive: true })
})

test('two changes of a pool that only together are wrong do not both come through', async () => {
  const admin = await servers[0]!.keyOf('platform_admin')
  // Nobody starts workers for it, whatever its minimum is meanwhile.
  await database.sql(`insert into sluice.pools (name, updated_by) values ('without', 'test')`)
  for (let round = 0; round < 12; round++) {
    await servers[0]!.call('PATCH', '/admin/fleet/without', { key: admin, body: { min: 0, max: 3 } })
    const answers = await Promise.all(
      [{ min: 3 }, { max: 2 }].map((body, i) =>
        servers[i]!.call('PATCH', '/admin/fleet/without', { key: admin, body }),
      ),
    )
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 400])
    const refused = answers.find(({ status }) => status === 400)!.json<{ code: string; detail: string }>()
    expect(refused.code).toBe('INVALID_ARGUMENT')
    expect(refused.detail).toMatch(
      /^(min is 3, more than max, which is 2|max is 2, less than min, which is 3);/,
    )
  }
})

async function attach(server: TestServer, more: object = {}): Promise<Worker> {
  const body = { name: 'w', capacity: 1, cores: 1, tasks: [{ name: 'work' }], ...more }
  const answer = await server.call('POST', '/workers', { key, body })
  expect(answer.status, answer.text).toBe(201)
  const { id } = answer.json<{ id: string }>()
  await server.call('POST', `/workers/${id}/heartbeat`, { key, body: {} })
  return { id, server }
}

/** Jobs that a look for it brings; what it runs is named, so that nothing is given twice. */
async function take({ id, server }: Worker, running: readonly object[] = []) {
  const body = { running, free: 1 - running.length, waitMs: 0 }
  const answer = await server.call('POST', `/workers/${id}/cycle`, { key, body })
  expect(answer.status, answer.text).toBe(200)
  const { jobs } = answer.json<{ jobs: { id: string; attempt: number }[] }>()
  return jobs.map((job) => ({ id: job.id, attempt: job.attempt }))
}

test('jobs that overflow are one decision of two servers, and its workers come through either of them', async () => {
  const [first, second] = servers as [TestServer, TestServer]
  await first.app.submitMany(
    work,
    Array.from({ length: 9 }, () => null),
  )
  await Promise.all(servers.map((server) => server.app.provision()))
  const decisions = async () => (await second.app.fleet()).decisions
  await until(async () => (await decisions())[0]?.started === 3, 'three workers to be started')
  const { instances } = JSON.parse(readFileSync(file, 'utf8')) as {
    instances: Record<string, { environment: { SLUICE_POOL: string; SLUICE_REQUEST: string } }>
  }
  const environments = Object.values(instances).map(({ environment }) => environment)
  expect(new Set(environments.map(({ SLUICE_REQUEST }) => SLUICE_REQUEST.split('.')[0])).size).toBe(1)

  const workers: Worker[] = []
  for (const [index, { SLUICE_POOL: pool, SLUICE_REQUEST: request }] of environments.entries())
    workers.push(await attach(servers[index % 2]!, { pool, request }))
  await until(async () => (await decisions())[0]!.outcome === 'arrived', 'all to have come')

  expect(await decisions()).toHaveLength(1)
  expect((await first.app.fleet()).pools[0]).toMatchObject({ workers: 3, requests: 1, arrived: 3, failed: 0 })
  // What a worker did is told by the server that it speaks to.
  for (const worker of [workers[0]!, workers[0]!, workers[1]!]) {
    const [job] = await take(worker)
    const body = { ended: [{ ...job, ending: 'completed' }], running: [], free: 0 }
    await worker.server.call('POST', `/workers/${worker.id}/cycle`, { key, body })
    await worker.server.call('POST', `/workers/${worker.id}/heartbeat`, { key, body: {} })
  }
  const done = async () => (await decisions())[0]!.workers.map((worker) => worker.done)
  await until(async () => (await done()).join() === '2,1,0', 'what they did')
  const one = await first.call('POST', '/workers', {
    key,
    body: { name: 'w', capacity: 1, cores: 1, tasks: [{ name: 'work' }], pool: 'burst', request: 'more.1' },
  })
  expect(one.json()).toMatchObject({ code: 'SURPLUS_WORKER' })
})

test('workers are filled in the order in which they came, whichever server they are attached to', async () => {
  const [first, second] = servers as [TestServer, TestServer]
  await database.sql(`update sluice.workers set ended_at = clock_timestamp() where ended_at is null`)
  await database.sql('delete from sluice.jobs')
  const [a, b, c, d] = [
    await attach(first),
    await attach(second),
    await attach(first),
    await attach(second, { rank: -1 }),
  ]
  // Who has come before it in the order, a worker learns with its heartbeat.
  for (const { id, server } of [a, b, c, d])
    await server.call('POST', `/workers/${id}/heartbeat`, { key, body: {} })
  /** A job that has just become ready, however slow the machine is. */
  const submit = async () => {
    await first.app.submit(work, null)
    await database.sql(
      `update sluice.jobs set ready_at = clock_timestamp() + interval '1 hour' where state = 'ready'`,
    )
  }
  await submit()
  expect([await take(c), await take(b), await take(a)]).toEqual([[], [], []])
  const ofD = await take(d)
  expect(ofD).toHaveLength(1)

  await submit()
  expect([await take(d, ofD), await take(c), await take(b)]).toEqual([[], [], []])
  const ofA = await take(a)
  expect(ofA).toHaveLength(1)

  await submit()
  expect([await take(d, ofD), await take(a, ofA), await take(c)]).toEqual([[], [], []])
  expect(await take(b)).toHaveLength(1)
})
