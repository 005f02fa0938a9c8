import pg from 'pg'
import { expect, test } from 'vitest'
import { task } from '../../src/index.ts'
import { useApps } from '../support/apps.ts'
import { useDatabase } from '../support/database.ts'
import { lockLane } from '../support/state/lanes.ts'
import { until } from '../support/until.ts'
import { useCommitChecker } from '../support/watched-commits.ts'

const database = useDatabase()
useCommitChecker(database)
const apps = useApps(database)

test('a lane whose row another session has locked is left out and named; other lanes go on', async () => {
  const stuck = task({ name: 'stuck', lane: 'locked', run: (n: number) => n })
  const free = task({ name: 'free', lane: 'open', run: (n: number) => n })
  const lanes = { locked: { slots: 2 }, open: { slots: 2 } }
  const app = await apps.open({ tasks: [stuck, free], lanes })
  const client = new pg.Client(database.url)
  await client.connect()
  try {
    await app.work({ capacity: 2 })
    await (await app.submit(free, 0)).result()
    await lockLane(client, 'locked')
    const waiting = await app.submitMany(stuck, [1, 2, 3])
    const warning = () =>
      apps.logged.find(({ message }) => message.startsWith('lane locked is locked by another'))
    const from = performance.now()
    let done = 0
    // One after the other, so that each needs cycles of its own while the lock is held.
    while (warning() === undefined) {
      expect(await (await app.submit(free, done)).result()).toBe(done)
      done++
      expect(performance.now() - from, 'time until the warning').toBeLessThan(30_000)
    }
    const seconds = (performance.now() - from) / 1000
    expect(warning()).toMatchObject({ level: 'warn', fields: { lane: 'locked' } })
    // A cycle that waited a whole second for the lane would leave room for two or three jobs.
    expect(done / seconds, `${done} jobs in ${seconds} s`).toBeGreaterThan(4)
    expect((await app.getJob(waiting[0]!.id)).attempt).toBe(0)
    const warnings = apps.logged.filter(({ message }) => message.includes('is locked by another')).length
    for (let n = 0; n < 10; n++) await (await app.submit(free, n)).result()
    expect(apps.logged.filter(({ message }) => message.includes('is locked by another'))).toHaveLength(
      warnings,
    )
    await client.query('rollback')
    await Promise.all(waiting.map((job) => job.result()))
    await until(async () => (await app.listLanes()).every(({ running }) => running === 0), 'the end')
  } finally {
    await client.end()
  }
})

test('a worker that starts while a lane is locked comes up and works in the other lanes', async () => {
  const shut = task({ name: 'shut', lane: 'held-back', run: (n: number) => n })
  const going = task({ name: 'going', lane: 'going-on', run: (n: number) => n })
  const options = {
    tasks: [shut, going],
    lanes: { 'held-back': { slots: 2, poll: 300 }, 'going-on': { slots: 2 } },
  }
  const first = await apps.open(options)
  const client = new pg.Client(database.url)
  await client.connect()
  try {
    await lockLane(client, 'held-back')
    const waiting = await first.submit(shut, 1)
    const started = await apps.open(options)
    await started.work({ capacity: 2 })
    for (let n = 0; n < 3; n++) expect(await (await started.submit(going, n)).result()).toBe(n)
    expect((await started.getJob(waiting.id)).attempt).toBe(0)
    await client.query('rollback')
    expect(await waiting.result()).toBe(1)
  } finally {
    await client.end()
  }
})
