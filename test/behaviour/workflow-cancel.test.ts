import { expect, test, vi } from 'vitest'
import { task } from '../../src/index.ts'
import { useApps } from '../support/apps.ts'
import { useDatabase } from '../support/database.ts'
import { Gate } from '../support/gate.ts'
import { settled } from '../support/persistent-caller.ts'
import { countStates, findStep, readTree } from '../support/trees.ts'
import { until } from '../support/until.ts'
import { useCommitChecker } from '../support/watched-commits.ts'

vi.setConfig({ testTimeout: 60_000 })

const database = useDatabase()
useCommitChecker(database)
const apps = useApps(database)

/** A task that runs until it is told to stop. */
function endless(name: string, gate = new Gate()) {
  return task({
    name,
    lane: 'busy',
    run: (input: unknown, ctx) =>
      new Promise((_, reject) => {
        void gate.pass(JSON.stringify(input))
        if (ctx.signal.aborted) reject(ctx.signal.reason)
        ctx.signal.addEventListener('abort', () => reject(ctx.signal.reason))
      }),
  })
}

const LANES = { busy: { slots: null, perWorker: null, poll: '50ms' } } as const

test('cancelling a workflow ends 10,000 running and waiting jobs below it, nested ones too', async () => {
  const gate = new Gate()
  const app = await apps.open({
    tasks: [endless('endless', gate)],
    lanes: LANES,
    workflows: [
      {
        name: 'wide',
        definition: {
          steps: { all: { task: 'endless', with_items: '${{ range(input.n) }}', concurrency: 900 } },
        },
      },
      {
        name: 'deep',
        definition: {
          steps: {
            parts: {
              workflow: 'wide',
              with_items: '${{ range(12) }}',
              concurrency: 10,
              with: { n: 1000 },
            },
            after: { task: 'endless', needs: ['parts'], on: 'always' },
          },
        },
      },
    ],
  })
  await app.work({ capacity: 300 })
  const job = await app.submit('deep', null)
  await gate.arrived(300)
  await until(async () => {
    const { waiting = 0, ready = 0 } = await countStates(database.sql, job.id)
    return waiting + ready >= 9_000
  }, 'ten thousand jobs to be there')
  const began = performance.now()
  await app.cancel(job.id, 'enough')
  expect((await settled(job)).error).toBe('cancelled: enough')
  const tookMs = performance.now() - began
  const counts = await countStates(database.sql, job.id)
  expect(Object.keys(counts)).toEqual(['cancelled'])
  expect(counts.cancelled).toBeGreaterThan(10_000)
  expect(tookMs).toBeLessThan(20_000)
  await until(async () => {
    const [held] = await database.sql<{ slots: number }>(
      'select coalesce(sum(slots), 0)::integer as slots from sluice.holdings',
    )
    return held!.slots === 0
  }, 'every slot to be given back')
  expect(await database.sql('select 1 from sluice.chunks')).toEqual([])
})

test('a workflow that takes too long fails, and what is below it is cancelled', async () => {
  const gate = new Gate()
  const app = await apps.open({
    tasks: [endless('endless', gate)],
    lanes: LANES,
    workflows: [
      { name: 'slow', definition: { steps: { run: { task: 'endless' } } } },
      {
        name: 'limited',
        definition: {
          steps: {
            part: { workflow: 'slow', timeout: '300ms' },
            group: { timeout: '300ms', steps: { inner: { workflow: 'slow' } } },
          },
        },
      },
    ],
  })
  await app.work({ capacity: 10 })
  const job = await app.submit('limited', null)
  await gate.arrived(2)
  const { error } = await settled(job)
  expect(error).toContain('timeout:')
  const tree = await readTree(database.sql, job.id)
  const states = tree.map(({ step, state }) => `${step ?? 'root'} ${state}`)
  expect(states.toSorted()).toEqual([
    'group failed',
    'inner cancelled',
    'part failed',
    'root failed',
    'run cancelled',
    'run cancelled',
  ])
})

test('a far timeout of one workflow does not slow another down', async () => {
  const quick = task({ name: 'quick', run: () => 'done' })
  const gate = new Gate()
  const app = await apps.open({
    tasks: [quick, endless('endless', gate)],
    lanes: LANES,
    workflows: [
      {
        name: 'far',
        definition: { steps: { wait: { timeout: '1h', steps: { run: { task: 'endless' } } } } },
      },
      {
        name: 'quickly',
        definition: { steps: { a: { task: 'quick' }, b: { task: 'quick', needs: ['a'] } } },
      },
    ],
  })
  await app.work({ capacity: 10 })
  const far = await app.submit('far', null)
  await gate.arrived(1)
  // Each tick of the duties tells of the far wake-up once more.
  for (let tick = 0; tick < 5; tick++) {
    const [before] = await database.sql<{ at: Date }>('select last_at as at from sluice.watch')
    await until(async () => {
      const [now] = await database.sql<{ at: Date }>('select last_at as at from sluice.watch')
      return now!.at > before!.at
    }, 'another tick')
  }
  const began = performance.now()
  for (let n = 0; n < 5; n++) await (await app.submit('quickly', null)).result()
  expect(performance.now() - began).toBeLessThan(2500)
  await app.cancel(far.id)
  await settled(far)
})

test('a deadline for starting is passed down to the leaf jobs', async () => {
  const app = await apps.open({
    tasks: [endless('endless')],
    lanes: { busy: { slots: 0 } },
    workflows: [
      {
        name: 'inner',
        definition: { steps: { run: { task: 'endless', with_items: [1, 2], concurrency: 1 } } },
      },
      { name: 'outer', definition: { steps: { part: { workflow: 'inner', deadline: '200ms' } } } },
    ],
  })
  await app.work({ capacity: 2 })
  const job = await app.submit('outer', null)
  expect((await settled(job)).error).toContain('failed')
  const leaves = (await readTree(database.sql, job.id)).filter(({ kind }) => kind === null)
  expect(leaves.map(({ state }) => state)).toEqual(['failed', 'failed'])
  for (const { error } of leaves) expect(error).toMatch(/^capacity: not started by its deadline/)
  await app.setLane('busy', { slots: null })
})

test('an early verdict ends a fan-out and cancels what runs and waits', async () => {
  const gate = new Gate()
  const app = await apps.open({
    tasks: [
      endless('endless', gate),
      task({ name: 'first', lane: 'busy', run: () => gate.arrived(3).then(() => 'first') }),
    ],
    lanes: LANES,
    workflows: [
      {
        name: 'one',
        definition: {
          steps: {
            slow: { task: 'endless', when: '${{ input.n > 0 }}', with: { n: '${{ input.n }}' } },
            fast: { task: 'first', when: '${{ input.n == 0 }}' },
          },
        },
      },
      {
        name: 'race',
        definition: {
          steps: {
            runners: {
              workflow: 'one',
              with_items: '${{ range(40) }}',
              concurrency: 4,
              with: { n: '${{ item }}' },
              strategy: { rule: 'any', early: true },
            },
          },
          output: '${{ steps.runners.status }}',
        },
      },
    ],
  })
  await app.work({ capacity: 10 })
  const job = await app.submit('race', null)
  expect(await job.result()).toBe('completed')
  const fan = (await findStep(database.sql, job.id, 'runners'))!
  await until(async () => {
    const { running = 0, ready = 0, waiting = 0 } = await countStates(database.sql, job.id)
    return running + ready + waiting === 0
  }, 'the others to be stopped')
  const counts = await countStates(database.sql, job.id, `parent_id = ${fan}`)
  expect(counts).toEqual({ completed: 1, cancelled: 39 })
})

test('a workflow that ended early is not deleted while something below it still runs', async () => {
  const gate = new Gate()
  const deaf = task({
    name: 'deaf',
    lane: 'busy',
    run: async ({ n }: { n: number }) => {
      if (n > 0) await gate.pass()
      else await gate.arrived(1)
    },
  })
  const steps = {
    runners: {
      task: 'deaf',
      with_items: '${{ range(2) }}',
      with: { n: '${{ item }}' },
      strategy: { rule: 'any', early: true },
    },
  }
  const app = await apps.open({
    tasks: [deaf],
    lanes: LANES,
    workflows: [{ name: 'hasty', definition: { steps } }],
  })
  await app.work({ capacity: 10 })
  const job = await app.submit('hasty', null)
  await job.result()
  await expect(app.remove(job.id)).rejects.toMatchObject({
    code: 'ILLEGAL_TRANSITION',
    message: `job ${job.id} is completed and cannot be deleted: something below it has not ended yet`,
  })
  const fan = (await findStep(database.sql, job.id, 'runners'))!
  await expect(app.remove(fan)).rejects.toMatchObject({
    message: expect.stringContaining(`part of job ${job.id}`),
  })
  gate.open()
  await until(
    async () => (await countStates(database.sql, job.id)).running === undefined,
    'all to have ended',
  )
  await app.remove(job.id)
  expect(await database.sql('select 1 from sluice.jobs where id = $1 or root_id = $1', [job.id])).toEqual([])
})

test('cancelling a child of a workflow is a failure of that child only', async () => {
  const gate = new Gate()
  const app = await apps.open({
    tasks: [endless('endless', gate), task({ name: 'quick', run: () => 'done' })],
    lanes: LANES,
    workflows: [
      {
        name: 'handled',
        definition: {
          steps: {
            run: { steps: { inner: { task: 'endless' } } },
            rescue: { task: 'quick', needs: ['run'], on: 'failure' },
          },
          output: '${{ steps.run.status + " " + steps.rescue.result }}',
        },
      },
    ],
  })
  await app.work({ capacity: 10 })
  const job = await app.submit('handled', null)
  await gate.arrived(1)
  await app.cancel((await findStep(database.sql, job.id, 'run'))!)
  expect(await job.result()).toBe('cancelled done')
})
