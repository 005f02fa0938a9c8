import { expect, test } from 'vitest'
import { sluice, task } from '../../src/index.ts'
import { useDatabase } from '../support/database.ts'

const database = useDatabase()

test('a submitted job runs and its result comes back', async () => {
  const double = task({ name: 'double', run: (input: { n: number }) => input.n * 2 })
  const app = await sluice({ database: database.url, tasks: [double] })
  try {
    await app.work()
    const job = await app.submit(double, { n: 21 })
    expect(await job.result()).toBe(42)
  } finally {
    await app.close()
  }
})
