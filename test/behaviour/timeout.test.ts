import { once } from 'node:events'
import { expect, test } from 'vitest'
import { task } from '../../src/index.ts'
import { useApps } from '../support/apps.ts'
import { useDatabase } from '../support/database.ts'
import { Gate } from '../support/gate.ts'

const apps = useApps(useDatabase())

test('an attempt that runs too long hears its signal and fails with the timeout', async () => {
  const reasons: unknown[] = []
  const slow = task({
    name: 'slow',
    timeout: '50ms',
    retry: { attempts: 1 },
    run: async (_: unknown, ctx) => {
      await once(ctx.signal, 'abort')
      reasons.push(ctx.signal.reason.reason)
      ctx.signal.throwIfAborted()
    },
  })
  const app = await apps.open({ tasks: [slow] })
  await app.work()
  const job = await app.submit(slow, null)

  await expect(job.result()).rejects.toMatchObject({ error: 'timeout: ran longer than 50 ms' })
  expect(reasons).toEqual(['timeout'])
})

test('a timeout counts as a failure and is tried again', async () => {
  const second = task({
    name: 'second',
    timeout: '1s',
    retry: { delay: 0 },
    run: async (_: unknown, ctx) => {
      if (ctx.attempt === 1) {
        await once(ctx.signal, 'abort')
        ctx.signal.throwIfAborted()
      }
      return ctx.attempt
    },
  })
  const app = await apps.open({ tasks: [second] })
  await app.work()
  const job = await app.submit(second, null)

  expect(await job.result()).toBe(2)
  expect((await app.listAttempts(job.id))[0]).toMatchObject({
    ending: 'failed',
    error: 'timeout: ran longer than 1000 ms',
  })
  expect(await app.getJob(job.id)).toMatchObject({ failures: 1 })
})

test('code that hears nothing keeps its slot, and its result comes too late', async () => {
  const gate = new Gate()
  const told = new Gate()
  const deaf = task({
    name: 'deaf',
    timeout: 20,
    retry: { attempts: 1 },
    run: async (_: unknown, ctx) => {
      ctx.signal.addEventListener('abort', () => void told.pass())
      await gate.pass()
      return 'too late'
    },
  })
  const app = await apps.open({ tasks: [deaf] })
  await app.work()
  const job = await app.submit(deaf, null)
  await told.arrived()
  expect(await app.getJob(job.id)).toMatchObject({ status: 'running' })
  gate.open()

  await expect(job.result()).rejects.toMatchObject({ error: 'timeout: ran longer than 20 ms' })
})

test('steps and checkpoints stop code that has run out of time', async () => {
  const loops = task({
    name: 'loops',
    timeout: 50,
    retry: { attempts: 1 },
    run: async (_: unknown, ctx) => {
      for (let i = 0; ; i++) await ctx.checkpoint.set(i)
    },
  })
  const app = await apps.open({ tasks: [loops] })
  await app.work()

  await expect(app.submit(loops, null).then((job) => job.result())).rejects.toMatchObject({
    error: expect.stringMatching(/^timeout: /),
  })
})

test('a task that ends in time is left alone', async () => {
  const fast = task({ name: 'fast', timeout: '10s', run: () => 'done' })
  const app = await apps.open({ tasks: [fast] })
  await app.work()

  expect(await app.submit(fast, undefined).then((job) => job.result())).toBe('done')
})

test.each([
  [0, 'timeout must be a duration above 0 and up to 24d'],
  ['forever', 'found "forever"'],
  ['30d', 'timeout must be a duration above 0 and up to 24d'],
])('a timeout of %s is refused', (timeout, message) => {
  expect(() => task({ name: 'bad', timeout, run: () => null })).toThrow(message)
})
