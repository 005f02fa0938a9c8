import { expect, test } from 'vitest'
import { sluice } from '../../src/index.ts'
import { useDatabase } from '../support/database.ts'
import { until, untilNoneLeft } from '../support/until.ts'
import { useCommitChecker } from '../support/watched-commits.ts'
import { SHORT_LEASES, startWorker, type WorkerProcess } from '../support/worker-process.ts'

const database = useDatabase()
const commits = useCommitChecker(database)

/** They do not fit beside each other on the one device that all processes share. */
const BUDGETS = {
  budgets: { seats: 3, vram: { gpu0: '24GB', maxWait: 200, quantum: 1 } },
  models: { small: { load: 5 }, large: { load: 5 } },
  lanes: { default: { perWorker: null, poll: 200 } },
} as const
const TASKS = {
  seat: { uses: { seats: 1 }, losses: 100 },
  small: { model: 'small', uses: { vram: '10GB' }, losses: 100 },
  large: { model: 'large', uses: { vram: '16GB', seats: 1 }, losses: 100 },
}
const EACH = 60

test('eight processes that race for one budget never hold more of it than there is, also while they are killed and it is made smaller', async () => {
  const app = await sluice({
    database: database.url,
    ...SHORT_LEASES,
    ...BUDGETS,
    admission: { maxQueued: {} },
  })
  const start = () =>
    startWorker({
      options: { database: database.url, ...BUDGETS },
      work: { capacity: 0 },
      tasks: TASKS,
    })
  try {
    const workers: WorkerProcess[] = await Promise.all(Array.from({ length: 8 }, start))
    for (const name of Object.keys(TASKS))
      await app.submitMany(
        name,
        Array.from({ length: EACH }, () => ({ sleepMs: 2 })),
      )
    const ended = async () => {
      const [row] = await database.sql<{ n: number }>(
        `select count(*)::integer as n from sluice.jobs where state = 'completed'`,
      )
      return row!.n
    }
    await until(async () => (await ended()) > EACH / 2, 'the race to be on')
    await app.setBudget('seats', { capacity: 1 })
    await app.setBudget('vram', { limits: { gpu0: '10GB' } })
    await Promise.all(workers.slice(0, 3).map((worker) => worker.kill()))
    // Only the small model fits, with what draws from no device.
    const small = async () =>
      (await database.sql(`select 1 from sluice.jobs where task <> 'large' and state < 'completed'`)).length
    await until(async () => (await small()) < EACH / 2, 'those that still fit to go on')
    await app.resetBudget('seats')
    await app.resetBudget('vram')
    await untilNoneLeft(async () => 3 * EACH - (await ended()), 'all to complete')
    const { budgets, violations } = await commits.catchUp()
    expect(violations.slice(0, 10)).toEqual([])
    expect(budgets.seen.reservations).toBeGreaterThanOrEqual(3 * EACH)
    expect(budgets.seen.copies).toBeGreaterThan(1)
    expect(budgets.seen.peak).toBe(1)
    expect(budgets.heldOf('seats/')).toBe(0)
    console.log(JSON.stringify(budgets.seen))
  } finally {
    await app.close()
  }
}, 600_000)
