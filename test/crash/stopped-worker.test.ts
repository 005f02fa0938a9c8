import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Sluice, sluice } from '../../src/index.ts'
import { useDatabase } from '../support/database.ts'
import { until } from '../support/until.ts'
import { useCommitChecker } from '../support/watched-commits.ts'
import {
  SHORT_LEASES,
  STALE_MS,
  startWorker,
  type WorkerProcess,
  whoStarted,
} from '../support/worker-process.ts'

const database = useDatabase()
useCommitChecker(database)
let app: Sluice

beforeAll(async () => {
  app = await sluice({ database: database.url, ...SHORT_LEASES, lanes: { narrow: { slots: 1 } } })
})
afterAll(() => app.close())

const start = () =>
  startWorker({
    options: { database: database.url, lanes: { narrow: { slots: 1 } } },
    tasks: { act: { lane: 'narrow' }, wide: {} },
  })

function silentFor(worker: WorkerProcess, ms: number): Promise<unknown> {
  return until(
    async () => {
      const rows = await database.sql(
        `select 1 from sluice.workers where pid = $1 and seen_at < clock_timestamp() - make_interval(secs => $2)`,
        [worker.pid, ms / 1000],
      )
      return rows.length > 0
    },
    `worker ${worker.pid} to be silent for ${ms} ms`,
    ms + 10_000,
  )
}

async function slotsHeld(): Promise<number> {
  const [row] = await database.sql<{ slots: number }>(
    `select sum(slots)::integer as slots from sluice.holdings where lane = 'narrow'`,
  )
  return row!.slots
}

test('a worker that wakes after 3 x stale finds its job in other hands: its late result is refused and logged', async () => {
  const sleeper = await start()
  const { id } = await app.submit('act', { gate: true, deaf: true })
  await sleeper.started(id)
  const other = await start()
  await sleeper.pause()
  await silentFor(sleeper, 3 * STALE_MS)
  await other.started(id, 2)

  // The result lies ready: the sleeper has it the moment it wakes, before it can learn that it was given up.
  sleeper.go(id)
  sleeper.resume()
  await sleeper.logged('late result')
  // All that is known is that it did not run: no task is blamed for it.
  const { fields } = await sleeper.logged('this process did not run for')
  expect(fields.forMs).toBeGreaterThan(2 * STALE_MS)
  expect(sleeper.hasLogged('blocked the event loop')).toBe(false)
  expect(sleeper.stderr).not.toContain('event loop')
  expect(await slotsHeld()).toBe(1)
  expect((await app.getJob(id)).status).toBe('running')
  other.go(id)
  expect(await app.job(id).result()).toEqual({ attempt: 2, pid: other.pid })

  // Both go on; the sleeper as a new incarnation.
  await other.close()
  const next = await app.submit('act', {})
  expect(await next.result()).toEqual({ attempt: 1, pid: sleeper.pid })
  await sleeper.close()
})

test('when all stood still, as on a suspended machine, nobody is declared dead', async () => {
  const workers = [await start(), await start()]
  const jobs = await app.submitMany('wide', [
    { gate: true, deaf: true },
    { gate: true, deaf: true },
  ])
  const holders = await Promise.all(
    jobs.map(async ({ id }) => ({ id, worker: await whoStarted(workers, id) })),
  )
  for (const worker of workers) await worker.pause()
  // Longer than the upkeep takes for granted that nothing happened, which is 3 s.
  for (const worker of workers) await silentFor(worker, 3 * STALE_MS)
  const [{ now } = { now: '' }] = await database.sql<{ now: string }>('select clock_timestamp()::text as now')
  for (const worker of workers) worker.resume()
  // Whoever wakes first looks for dead workers while the others have not yet said a word. Then all have spoken.
  for (const { pid } of workers) {
    await until(
      async () =>
        (await database.sql('select 1 from sluice.workers where pid = $1 and seen_at > $2', [pid, now]))
          .length > 0,
      `worker ${pid} to be heard of`,
    )
  }

  for (const { id, worker } of holders) worker.go(id)
  for (const { id, worker } of holders) {
    expect(await app.job(id).result()).toEqual({ attempt: 1, pid: worker.pid })
  }
  for (const worker of workers) expect(worker.hasLogged('declared dead')).toBe(false)
})
