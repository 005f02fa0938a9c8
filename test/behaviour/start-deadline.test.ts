import { expect, onTestFinished, test } from 'vitest'
import { type Sluice, type Task, task } from '../../src/index.ts'
import { useApps } from '../support/apps.ts'
import { useDatabase } from '../support/database.ts'
import { Gate } from '../support/gate.ts'
import { holdDuty, releaseDuty } from '../support/state/duties.ts'
import { plantDeadline } from '../support/state/jobs.ts'
import { readTree, type StoredNode } from '../support/trees.ts'
import { until } from '../support/until.ts'

// What a worker does with jobs whose start deadline passed while nobody looked: in an outage, or while all workers were stopped.
// The duty that expires jobs is held, so that only the claim stands between such a job and its start.

const database = useDatabase()
const apps = useApps(database)

async function holdExpiry(): Promise<void> {
  await holdDuty(database.sql, 'expire')
  onTestFinished(() => releaseDuty(database.sql, 'expire'))
}

/** Submits jobs, and lets their deadlines pass before any worker runs. */
async function submitLate(app: Sluice, work: Task<number, unknown>, count: number): Promise<string[]> {
  const inputs = Array.from({ length: count }, (_, n) => n)
  const jobs = await app.submitMany(work, inputs, { deadline: '1h', priority: 10 })
  const ids = jobs.map(({ id }) => id)
  await plantDeadline(database.sql, ids, -1)
  return ids
}

async function expectNeverStarted(app: Sluice, ids: readonly string[]): Promise<void> {
  for (const id of ids) {
    expect(await app.getJob(id)).toMatchObject({
      status: 'failed',
      attempt: 0,
      startedAt: null,
      error: expect.stringMatching(/^capacity: not started by its deadline/),
    })
  }
}

test('a worker that starts after an outage fails the jobs whose deadline has passed and runs the others', async () => {
  const started: number[] = []
  const note = task({ name: 'note', lane: 'one', run: (n: number) => void started.push(n) })
  const other = task({ name: 'other', lane: 'one', run: (n: number) => void started.push(n) })
  const app = await apps.open({ tasks: [note, other], lanes: { one: { slots: 1 } } })
  await holdExpiry()
  const late = [...(await submitLate(app, note, 1500)), ...(await submitLate(app, other, 20))]
  const intime = await app.submit(note, 7, { deadline: '1h' })
  const patient = await app.submit(other, 8)
  await app.work()

  await Promise.all([intime.result(), patient.result()])
  expect(started.sort()).toEqual([7, 8])
  await until(async () => (await app.getJob(late.at(-1)!)).status === 'failed', 'the last one to fail')
  await expectNeverStarted(app, [late[0]!, late[1]!, late[749]!, ...late.slice(1490)])
})

test('a job that draws from a budget fails at its claim once its deadline has passed', async () => {
  const started: number[] = []
  const drawing = task({ name: 'drawing', uses: { seats: 1 }, run: (n: number) => void started.push(n) })
  const app = await apps.open({ tasks: [drawing], budgets: { seats: 2 } })
  await holdExpiry()
  const late = await submitLate(app, drawing, 5)
  const intime = await app.submit(drawing, 7, { deadline: '1h' })
  await app.work()

  await intime.result()
  expect(started).toEqual([7])
  await expectNeverStarted(app, late)
})

/** A workflow with one fan-out over `input.items`, with a window of one. */
const ITEMS = {
  steps: {
    fan: { task: 'item', with_items: '${{ input.items }}', concurrency: 1, with: { at: '${{ item }}' } },
  },
}

async function childrenOf(root: string): Promise<StoredNode[]> {
  return (await readTree(database.sql, root)).filter(({ place, kind }) => place !== null && kind === null)
}

test('a late child of a fan-out fails, and its place in the window goes to the next child', async () => {
  const started: number[] = []
  const item = task({ name: 'item', deadline: '1h', run: ({ at }: { at: number }) => void started.push(at) })
  const app = await apps.open({ tasks: [item], workflows: [{ name: 'items', definition: ITEMS }] })
  await holdExpiry()
  app.startDuties()
  const job = await app.submit('items', { items: [0, 1, 2] })
  const first = await until(
    async () => (await childrenOf(job.id)).find(({ state }) => state === 'ready'),
    'the first child to be ready',
  )
  await plantDeadline(database.sql, [first.id], -1)
  await app.work()

  await expect(job.result()).rejects.toThrow()
  expect(started).toEqual([1, 2])
  await expectNeverStarted(app, [first.id])
})

test('a child that starts in the place of its sibling has the deadline that it would have had in the queue', async () => {
  const gate = new Gate()
  const item = task({
    name: 'item',
    deadline: '1h',
    run: async ({ at }: { at: number }) => {
      if (at > 0) await gate.pass()
    },
  })
  const app = await apps.open({ tasks: [item], workflows: [{ name: 'items', definition: ITEMS }] })
  await app.work()
  const job = await app.submit('items', { items: [0, 1] })
  await gate.arrived()
  const second = (await childrenOf(job.id)).find(({ state }) => state === 'running')!
  const { deadlineAt, readyAt } = await app.getJob(second.id)
  expect(deadlineAt!.getTime() - readyAt.getTime()).toBe(3_600_000)
  gate.open()
  await job.result()
})
