import { expect, onTestFinished, test } from 'vitest'
import { sluice } from '../../src/index.ts'
import { useDatabase } from '../support/database.ts'
import { useCommitChecker } from '../support/watched-commits.ts'
import { SHORT_LEASES, startWorker, type WorkerProcess } from '../support/worker-process.ts'

const database = useDatabase()
useCommitChecker(database)

test('a job that kills its worker is failed after the last loss, and the others run as if it were not there', async () => {
  const app = await sluice({ database: database.url, ...SHORT_LEASES })
  onTestFinished(() => app.close())
  const start = () =>
    startWorker({ options: { database: database.url }, tasks: { act: { losses: 1 }, other: {} } })
  let deaths = 0
  let last = false
  // What a service manager does.
  const supervise = async (worker: WorkerProcess): Promise<void> => {
    await worker.exited
    if (last) return
    deaths++
    await supervise(await start())
  }
  const supervised = supervise(await start())

  const poison = await app.submit('act', { die: true }, { priority: 1 })
  const others = await app.submitMany(
    'other',
    Array.from({ length: 20 }, () => ({ sleepMs: 5 })),
  )
  await expect(poison.result()).rejects.toMatchObject({
    code: 'JOB_FAILED',
    error: expect.stringMatching(/^lost: worker .* stopped answering during attempt 2$/),
  })
  for (const other of others) expect(await other.result()).toMatchObject({ attempt: 1 })
  expect(deaths).toBe(2)

  const [row] = await database.sql(
    `select (select losses from sluice.jobs where id = $1) as poison,
            (select sum(losses)::integer from sluice.jobs where id <> $1) as others`,
    [poison.id],
  )
  expect(row).toEqual({ poison: 2, others: 0 })
  last = true
  await app.close()
  void supervised
})
