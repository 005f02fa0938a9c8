import { availableParallelism } from 'node:os'
import { expect, test } from 'vitest'
import { task } from '../../src/index.ts'
import { useApps } from '../support/apps.ts'
import { useDatabase } from '../support/database.ts'
import { Gate } from '../support/gate.ts'
import { until } from '../support/until.ts'

const database = useDatabase()
const apps = useApps(database)

test('a worker runs one job at a time by default', async () => {
  const gate = new Gate()
  const held = task({ name: 'one', lane: 'wide', run: () => gate.pass() })
  const app = await apps.open({ tasks: [held], lanes: { wide: { slots: 50 } } })
  await app.work()
  const jobs = await app.submitMany(held, Array.from({ length: 3 }))
  await gate.arrived()
  await until(async () => (await app.why(jobs[2]!.id)).reason.includes('is at capacity'), 'the reason')

  expect((await app.why(jobs[2]!.id)).reason).toBe('every worker that runs task one is at capacity')
  expect(await app.listWorkers()).toMatchObject([{ capacity: 1, running: 1 }])
  expect(gate.arrivals).toHaveLength(1)
  gate.open()
  await Promise.all(jobs.map((job) => job.result()))
})

test('a full worker takes nothing, however many jobs wait and however many hints arrive', async () => {
  const gate = new Gate()
  let running = 0
  let most = 0
  const held = task({
    name: 'full',
    lane: 'wide',
    run: async () => {
      most = Math.max(most, ++running)
      await gate.pass()
      running--
    },
  })
  const app = await apps.open({ tasks: [held], lanes: { wide: { slots: 50 } } })
  await app.work({ capacity: 4 })
  const jobs = await app.submitMany(held, Array.from({ length: 40 }))
  await gate.arrived(4)
  for (let i = 0; i < 10; i++) await app.submit(held, undefined).then((job) => jobs.push(job))
  await database.sql(`select pg_notify('sluice', 'ready')`)
  expect(await app.listWorkers()).toMatchObject([{ capacity: 4, running: 4 }])
  expect(running).toBe(4)
  gate.open()

  await Promise.all(jobs.map((job) => job.result()))
  expect(most).toBe(4)
})

test('capacity 0 is no limit of its own: the lanes are the bounds', async () => {
  const gate = new Gate()
  const held = task({ name: 'unbounded', lane: 'sixty', run: () => gate.pass() })
  const app = await apps.open({ tasks: [held], lanes: { sixty: { slots: 60 } }, cycleMax: 25 })
  await app.work({ capacity: 0 })
  const jobs = await app.submitMany(held, Array.from({ length: 70 }))

  await gate.arrived(60)
  await until(async () => (await app.why(jobs[69]!.id)).reason.includes('60 of 60'), 'the lane to be full')
  expect(gate.arrivals).toHaveLength(60)
  gate.open()
  await Promise.all(jobs.map((job) => job.result()))
})

test.each([-1, 1.5, Number.NaN, Number.POSITIVE_INFINITY])(
  'a capacity of %d is refused',
  async (capacity) => {
    const app = await apps.open({})
    await expect(app.work({ capacity })).rejects.toMatchObject({
      code: 'INVALID_ARGUMENT',
      message: `capacity: ${capacity} must be a whole number, 0 (no limit) or more`,
    })
    expect(await app.listWorkers()).toEqual([])
    await expect(apps.open({ capacity })).rejects.toMatchObject({ code: 'INVALID_CONFIG' })
  },
)

test('the environment sets it where the program does not', async () => {
  process.env.SLUICE_CAPACITY = '3'
  try {
    const app = await apps.open({})
    await app.work()
    expect(await app.listWorkers()).toMatchObject([{ capacity: 3 }])
    await app.stopWorking()
    await app.work({ capacity: 2 })
    expect(await app.listWorkers()).toMatchObject([{ capacity: 2 }])
    process.env.SLUICE_CAPACITY = '-3'
    await expect(apps.open({})).rejects.toMatchObject({
      code: 'INVALID_CONFIG',
      message: expect.stringContaining('SLUICE_CAPACITY: found "-3"'),
    })
  } finally {
    delete process.env.SLUICE_CAPACITY
  }
})

test('one cycle takes no more than cycleMax', async () => {
  const gate = new Gate()
  const held = task({ name: 'chunks', lane: 'wide', run: () => gate.pass() })
  const app = await apps.open({ tasks: [held], lanes: { wide: { slots: 50 } }, cycleMax: 4 })
  const jobs = await app.submitMany(held, Array.from({ length: 18 }))
  await app.work({ capacity: 18 })
  await gate.arrived(18)

  // Jobs of one cycle share the transaction that claimed them.
  const claims = await database.sql<{ n: number }>(
    `select sum(cardinality(c.ids))::integer as n from sluice.claims c join sluice.classes k on k.id = c.class_id
      where k.task = 'chunks' group by c.xmin`,
  )
  expect(Math.max(...claims.map((each) => each.n))).toBe(4)
  gate.open()
  await Promise.all(jobs.map((job) => job.result()))
})

test('a program is one worker at a time; it can stop and start again', async () => {
  const quick = task({ name: 'quick', run: (n: number) => n })
  const app = await apps.open({ tasks: [quick] })
  const starts = await Promise.allSettled([app.work(), app.work(), app.work()])
  expect(starts.map((start) => start.status).sort()).toEqual(['fulfilled', 'rejected', 'rejected'])
  expect(starts.find((start) => start.status === 'rejected')).toMatchObject({
    reason: { code: 'INVALID_ARGUMENT', message: 'this process is already a worker' },
  })
  expect(await app.listWorkers()).toHaveLength(1)
  await app.submit(quick, 1).then((job) => job.result())

  await Promise.all([app.stopWorking(), app.stopWorking()])
  expect(await app.listWorkers()).toEqual([])
  const job = await app.submit(quick, 2)
  expect(await app.getJob(job.id)).toMatchObject({ status: 'queued' })
  await app.work()
  expect(await job.result()).toBe(2)
})

test('closing while a worker starts leaves none behind', async () => {
  const quick = task({ name: 'brief', run: (n: number) => n })
  for (let i = 0; i < 3; i++) {
    const app = await apps.open({ tasks: [quick] })
    const starting = app.work().catch((error: unknown) => error)
    await app.close()
    await starting
  }
  expect(await database.sql('select 1 from sluice.workers where ended_at is null')).toEqual([])
})

test('a worker can be held to some of its tasks', async () => {
  const [one, two] = ['some-one', 'some-two'].map((name) => task({ name, run: (n: number) => n }))
  const app = await apps.open({ tasks: [one!, two!] })
  await app.work({ tasks: ['some-one'], name: 'picky' })
  const left = await app.submit(two!, 2)
  expect(await app.submit(one!, 1).then((job) => job.result())).toBe(1)
  expect((await app.why(left.id)).reason).toBe('no worker runs task some-two')
  expect(await app.listWorkers()).toMatchObject([{ name: 'picky', tasks: ['some-one'] }])
  await app.stopWorking()

  await expect(app.work({ tasks: ['some-three'] })).rejects.toMatchObject({ code: 'TASK_NOT_FOUND' })
})

test('a worker says what it is', async () => {
  const app = await apps.open({})
  await app.work({ capacity: 7, name: 'mine' })
  expect(await app.listWorkers()).toMatchObject([
    { name: 'mine', pid: process.pid, capacity: 7, running: 0, draining: false },
  ])
  const [row] = await database.sql<{ cores: number }>(
    'select cores from sluice.workers order by id desc limit 1',
  )
  expect(row!.cores).toBe(availableParallelism())
})
