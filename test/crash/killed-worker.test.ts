import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Sluice, sluice } from '../../src/index.ts'
import { useDatabase } from '../support/database.ts'
import {
  completedIn,
  isCycle,
  type ProxiedRequest,
  type RequestProxy,
  startRequestProxy,
} from '../support/request-proxy.ts'
import { until } from '../support/until.ts'
import { useCommitChecker } from '../support/watched-commits.ts'
import { SHORT_LEASES, startWorker, type WorkerProcess } from '../support/worker-process.ts'

const database = useDatabase()
useCommitChecker(database)
let app: Sluice
let proxy: RequestProxy

beforeAll(async () => {
  app = await sluice({ database: database.url, ...SHORT_LEASES })
  proxy = await startRequestProxy(database.url)
})
afterAll(async () => {
  await app.close()
  await proxy.close()
})

const isFinishOf = (id: string) => (request: ProxiedRequest) =>
  isCycle(request) && completedIn(request).includes(id)

/** The victim talks through the proxy; the survivor does not, and comes when the victim is dead. */
const startVictim = () => startWorker({ options: { database: proxy.url } })
const startSurvivor = () => startWorker({ options: { database: database.url } })

async function endOf(id: string): Promise<{ result: unknown; attempt: number; losses: number }> {
  const result = await app.job(id).result()
  const [row] = await database.sql<{ attempt: number; losses: number }>(
    'select attempt, losses from sluice.jobs where id = $1',
    [id],
  )
  return { result, ...row! }
}

async function isHeldBy(id: string, worker: WorkerProcess): Promise<boolean> {
  const rows = await database.sql(
    `select 1 from sluice.jobs j join sluice.workers w on w.id = j.worker_id
      where j.id = $1 and j.state = 'running' and w.pid = $2`,
    [id, worker.pid],
  )
  return rows.length === 1
}

test('killed before the work: the claim was committed, the worker never heard of it', async () => {
  const victim = await startVictim()
  const claim = proxy.hold(isCycle)
  const { id } = await app.submit('act', {})
  let held = await claim
  expect(await held.deliver()).toBe(true)
  // A look from before the job came finds nothing: the next one does.
  while (!(await isHeldBy(id, victim))) {
    const next = proxy.hold(isCycle)
    held.pass()
    held = await next
    expect(await held.deliver()).toBe(true)
  }
  await victim.kill()

  const survivor = await startSurvivor()
  expect(await endOf(id)).toEqual({ result: { attempt: 2, pid: survivor.pid }, attempt: 2, losses: 1 })
})

test('killed during the work: another worker runs the job again', async () => {
  const victim = await startVictim()
  const { id } = await app.submit('act', { gate: true })
  await victim.started(id)
  await victim.kill()

  const survivor = await startSurvivor()
  await survivor.started(id, 2)
  // The error belongs to the attempt that was lost, not to the one that runs.
  expect(await app.listAttempts(id)).toMatchObject([
    { attempt: 1, ending: 'lost', error: expect.stringContaining('lost: ') },
    { attempt: 2, ending: 'running', error: null },
  ])
  survivor.go(id)
  expect(await endOf(id)).toEqual({ result: { attempt: 2, pid: survivor.pid }, attempt: 2, losses: 1 })
})

test('killed after the work, with the result on its way: another worker runs the job again', async () => {
  const victim = await startVictim()
  const { id } = await app.submit('act', { gate: true })
  await victim.started(id)
  const finish = proxy.hold(isFinishOf(id))
  victim.go(id)
  const held = await finish
  await victim.kill()
  held.close()

  const survivor = await startSurvivor()
  await survivor.started(id, 2)
  survivor.go(id)
  expect(await endOf(id)).toEqual({ result: { attempt: 2, pid: survivor.pid }, attempt: 2, losses: 1 })
})

test('killed during the finish, when it was committed but not answered: the outcome stands', async () => {
  const victim = await startVictim()
  const { id } = await app.submit('act', { gate: true })
  await victim.started(id)
  const finish = proxy.hold(isFinishOf(id))
  victim.go(id)
  const held = await finish
  expect(await held.deliver()).toBe(true)
  await victim.kill()
  held.close()

  expect(await endOf(id)).toEqual({ result: { attempt: 1, pid: victim.pid }, attempt: 1, losses: 0 })
})

test('a finish that arrives after its sender died, within the lease, counts', async () => {
  const victim = await startVictim()
  const { id } = await app.submit('act', { gate: true })
  await victim.started(id)
  const finish = proxy.hold(isFinishOf(id))
  victim.go(id)
  const held = await finish
  await victim.kill()
  expect(await held.deliver()).toBe(true)
  held.close()

  expect(await endOf(id)).toEqual({ result: { attempt: 1, pid: victim.pid }, attempt: 1, losses: 0 })
})

test('a finish that arrives while another worker runs the job changes nothing', async () => {
  const victim = await startVictim()
  const { id } = await app.submit('act', { gate: true })
  await victim.started(id)
  const finish = proxy.hold(isFinishOf(id))
  victim.go(id)
  const held = await finish
  await victim.kill()

  const survivor = await startSurvivor()
  await survivor.started(id, 2)
  expect(await held.deliver()).toBe(true)
  held.close()
  expect(await isHeldBy(id, survivor)).toBe(true)
  survivor.go(id)
  expect(await endOf(id)).toEqual({ result: { attempt: 2, pid: survivor.pid }, attempt: 2, losses: 1 })
})

test('nothing is held by the dead in the end', async () => {
  const worker = await startSurvivor()
  await until(async () => {
    const [row] = await database.sql<{ dead: boolean; slots: number }>(
      `select exists (select 1 from sluice.workers w where w.ended_at is null and w.pid <> $1) as dead,
                coalesce(sum(slots), 0)::integer as slots from sluice.holdings`,
      [worker.pid],
    )
    return !row!.dead && row!.slots === 0
  }, 'the dead to be off the books')
})
