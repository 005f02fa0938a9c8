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

test('a task that has set no checkpoint gets undefined, and later what it has set', async () => {
  const count = task({
    name: 'count',
    run: async (_: null, ctx) => {
      const before = await ctx.checkpoint.get<number>()
      await ctx.checkpoint.set(3)
      return [typeof before, await ctx.checkpoint.get()]
    },
  })
  const app = await sluice({ database: database.url, tasks: [count] })
  try {
    await app.work()
    const job = await app.submit(count, null)
    expect(await job.result()).toEqual(['undefined', 3])
  } finally {
    await app.close()
  }
})
