import pg from 'pg'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { Connection } from '../../src/db/connection.ts'
import { Database } from '../../src/db/database.ts'
import { type Sluice, task } from '../../src/index.ts'
import { useApps } from '../support/apps.ts'
import { useDatabase } from '../support/database.ts'
import { Gate } from '../support/gate.ts'
import { SessionByHand } from '../support/session-by-hand.ts'
import { forgetJobs, lockRunningJob } from '../support/state/jobs.ts'
import { until, untilNoneLeft } from '../support/until.ts'
import { useCommitChecker } from '../support/watched-commits.ts'

// Workers with more lanes than one cycle looks at. The rules of a single cycle are in many-lanes-cycle.test.ts.

const database = useDatabase()
const commits = useCommitChecker(database)

/** How many classes with ready jobs a cycle looks at. */
const AT_ONCE = 64
/** How many cycles it takes to look at so many classes. */
const round = (classes: number) => Math.ceil(classes / AT_ONCE)

/** `count` tasks, each in a lane of its own. The order of their names differs from the order in which they become known. */
function tasksOf(name: string, count: number, run: () => unknown = () => null) {
  return Array.from({ length: count }, (_, n) => {
    const lane = `${name}-${(n * 97) % count}`
    return task({ name: lane, lane, run })
  })
}
type Tasks = ReturnType<typeof tasksOf>
const lanesOf = (tasks: Tasks, settings: object) =>
  Object.fromEntries(tasks.map(({ name }) => [name, settings]))

async function submitEach(app: Sluice, tasks: Tasks, jobs: (at: number) => number): Promise<number> {
  let submitted = 0
  for (const [at, each] of tasks.entries())
    submitted += (await app.submitMany(each, Array.from({ length: jobs(at) }))).length
  return submitted
}

describe('a session', () => {
  const apps = useApps(database)
  let db: Database
  let connection: Connection
  let session: SessionByHand | undefined

  beforeAll(() => {
    db = new Database({ url: database.url, maxConnections: 1, applicationName: 'session' })
    connection = new Connection({ url: database.url, applicationName: 'session', timeoutMs: 15_000 })
  })
  afterEach(async () => {
    await database.sql(
      `update sluice.jobs set state = 'cancelled', finished_at = now(), error = 'x' where state < 'completed'`,
    )
    await forgetJobs(database.sql)
    await session?.close('the test is over')
    session = undefined
  })
  afterAll(async () => {
    await connection.close()
    await db.close()
  })

  async function open(tasks: Tasks): Promise<SessionByHand> {
    const identity = { name: 's', host: 'h', pid: 1, version: '0', capacity: 0, cores: 1, labels: {} }
    session = await SessionByHand.open({
      ...{ db, connection },
      identity: { ...identity, tasks: tasks.map(({ name }) => name) },
    })
    return session
  }

  /** Runs cycles as long as the answer says to ask again at once. Returns how many jobs each cycle gave. */
  async function look(session: SessionByHand): Promise<number[]> {
    const given: number[] = []
    for (;;) {
      const { assignments, again } = await session.cycle([], 1000, 0)
      given.push(assignments.length)
      if (!again) return given
      if (given.length > 100) throw new Error(`the session does not stop asking: ${given}`)
    }
  }

  test('asks again at once when a cycle left out classes', async () => {
    const tasks = tasksOf('left-out', 100)
    const app = await apps.open({ tasks, lanes: lanesOf(tasks, { slots: 5 }) })
    await submitEach(app, tasks, () => 1)
    expect(await look(await open(tasks))).toEqual([AT_ONCE, 100 - AT_ONCE])
  })

  test.each([70, 128, 200])(
    'stops asking when it has looked at %i classes without a free slot, and finds the class that gets one',
    async (count) => {
      const tasks = tasksOf(`no-room-${count}`, count)
      const lanes = lanesOf(tasks, { slots: 1, enabled: false })
      const app = await apps.open({ tasks, lanes })
      await submitEach(app, tasks, () => 1)
      const session = await open(tasks)
      expect(await look(session)).toEqual(Array(round(count)).fill(0))
      for (const at of [0, 1, count / 2, count - 1]) {
        await app.setLane(tasks[at]!.name, { enabled: true })
        const given = await look(session)
        expect(given.reduce((sum, n) => sum + n)).toBe(1)
        expect(given.length).toBeLessThanOrEqual(round(count))
      }
    },
  )

  test('looks at all classes again when a job ends before it has looked at all of them', async () => {
    const tasks = tasksOf('again', 130)
    const app = await apps.open({ tasks, lanes: lanesOf(tasks, { slots: 1 }) })
    await submitEach(app, tasks, () => 2)
    const session = await open(tasks)
    const running = (await session.cycle([], 1000, 0)).assignments
    await look(session)
    for (const job of running.slice(0, 5)) {
      for (let n = 1; n < round(130); n++) expect((await session.cycle([], 1000, 0)).again).toBe(true)
      const ended = { ...job, ending: { kind: 'completed', result: 'null' } } as const
      const { assignments, again } = await session.cycle([ended], 1000, 0)
      expect(again).toBe(true)
      const next = [assignments.length, ...(await look(session))]
      expect(next.reduce((sum, n) => sum + n)).toBe(1)
    }
  })

  test('asks again at once when a cycle for one class waited too long for a lock to take jobs', async () => {
    const tasks = tasksOf('steady', 1)
    const app = await apps.open({ tasks, lanes: lanesOf(tasks, { slots: 2, prefetch: 'off' }) })
    await submitEach(app, tasks, () => 3)
    const session = await open(tasks)
    const [first] = (await session.cycle([], 2, 0)).assignments
    const holder = new pg.Client(database.directUrl)
    await holder.connect()
    try {
      await lockRunningJob(holder, first!.id)
      const cycle = session.cycle([{ ...first!, ending: { kind: 'completed', result: 'null' } }], 1, 0)
      const waiting = `select 1 from pg_stat_activity
        where datname = current_database() and wait_event_type = 'Lock' and clock_timestamp() - query_start > interval '150 milliseconds'`
      await until(async () => (await database.admin(waiting)).length === 1, 'the cycle to wait for the claim')
      await holder.query('commit')
      expect(await cycle).toMatchObject({ assignments: [], again: true })
      expect(await look(session)).toEqual([1])
    } finally {
      await holder.end()
    }
  })
})

describe('a worker', () => {
  const apps = useApps(database)
  const left = async () => (await database.sql(`select 1 from sluice.jobs where state < 'completed'`)).length

  test('runs all jobs of 70 lanes and gives back their slots', async () => {
    let ran = 0
    const tasks = tasksOf('drained', 70, () => ran++)
    const limited = tasks.filter((_, at) => at % 2 === 0)
    const app = await apps.open({
      tasks,
      lanes: { ...lanesOf(tasks, { slots: null }), ...lanesOf(limited, { slots: 2 }) },
    })
    const before = (await commits.catchUp()).seen.outcomes
    const submitted = await submitEach(app, tasks, (at) => (at % 10 === 0 ? 20 : 1))
    await app.work({ capacity: 100 })
    await untilNoneLeft(left, 'all jobs to run')
    expect(ran).toBe(submitted)
    expect((await commits.catchUp()).seen.outcomes - before).toBe(submitted)
    const held = () => database.sql<{ lane: string }>('select lane from sluice.holdings where slots > 0')
    await until(async () => (await held()).length === 0, 'all slots to go back')
  })

  test('resyncs when it has lost a holding, and keeps working', async () => {
    const gate = new Gate()
    const waiting = task({ name: 'waiting', lane: 'waiting', run: () => gate.pass() })
    const tasks = tasksOf('lost', 70)
    const app = await apps.open({
      tasks: [...tasks, waiting],
      lanes: { ...lanesOf(tasks, { slots: 2 }), waiting: { slots: 2 } },
    })
    await app.work({ capacity: 100 })
    const running = await app.submit(waiting, undefined)
    await gate.arrived()
    const [lost] = await database.sql<{ epoch: number }>(
      'delete from sluice.holdings where lane = $1 returning epoch',
      [tasks[40]!.name],
    )
    await submitEach(app, tasks, () => 1)
    await until(async () => (await left()) === 1, 'the other jobs to run')
    const epochs = await database.sql<{ epoch: number }>('select distinct epoch from sluice.holdings')
    expect(epochs).toHaveLength(1)
    expect(epochs[0]!.epoch).toBeGreaterThan(lost!.epoch)
    gate.open()
    await running.result()
    expect(await app.listAttempts(running.id)).toHaveLength(1)
  })
})
