import pg from 'pg'
import { describe, expect, onTestFinished, test } from 'vitest'
import { type Flow, type Sluice, task, workflow } from '../../src/index.ts'
import { useApps } from '../support/apps.ts'
import { useDatabase } from '../support/database.ts'
import { Gate } from '../support/gate.ts'
import { holdDuty, releaseDuty } from '../support/state/duties.ts'
import {
  alsoLockLane,
  jobsByLane,
  lockLane,
  moveOneBatch,
  saveTaskIn,
  waitingSessions,
} from '../support/state/lanes.ts'
import { lockJob } from '../support/state/priorities.ts'
import { until } from '../support/until.ts'
import { useCommitChecker } from '../support/watched-commits.ts'

const database = useDatabase()
// Limits hold at every commit while tasks move.
const commits = useCommitChecker(database)
const apps = useApps(database)

async function connect(): Promise<pg.Client> {
  const client = new pg.Client(database.url)
  await client.connect()
  onTestFinished(() => client.end())
  return client
}

const laneOf = async (app: Sluice, id: string) => (await app.getJob(id)).lane
const taskLane = async (app: Sluice, name: string) =>
  (await app.listTasks()).find((each) => each.name === name)?.lane

describe('a task that an operator moves', () => {
  test('takes its waiting jobs along, leaves running ones, and submissions that name a lane', async () => {
    const gate = new Gate()
    const moved = task({ name: 'moved', lane: 'old', run: (n: number) => gate.pass(String(n)) })
    const lanes = { old: { slots: 1 }, new: { slots: 1 } }
    const app = await apps.open({ tasks: [moved], lanes })
    await app.work({ capacity: 10 })
    const running = await app.submit(moved, 0)
    await gate.arrived(1)
    const waiting = await app.submit(moved, 1)
    const scheduled = await app.submit(moved, 2, { runAt: new Date(Date.now() + 3_600_000) })
    const chosen = await app.submit(moved, 3, { lane: 'old' })

    expect(await app.moveTask('moved', 'new')).toEqual({ task: 'moved', lane: 'new', moved: true })
    await gate.arrived(2)
    await until(async () => (await laneOf(app, scheduled.id)) === 'new', 'the scheduled job to follow')
    expect(gate.arrivals).toEqual(['0', '1'])
    expect(await laneOf(app, waiting.id)).toBe('new')
    expect(await app.getJob(running.id)).toMatchObject({ lane: 'old', status: 'running' })
    expect(await app.getJob(chosen.id)).toMatchObject({ lane: 'old', status: 'queued' })
    expect((await app.listLanes()).filter(({ name }) => name in lanes)).toMatchObject([
      { name: 'new', running: 1 },
      { name: 'old', running: 1 },
    ])
    expect(await laneOf(app, (await app.submit(moved, 4)).id)).toBe('new')
    gate.open()
    await Promise.all([running, waiting, chosen].map((job) => job.result()))
    await app.cancel(scheduled.id)
  })

  test('stays where it was moved when programs start that say otherwise, until it is reset', async () => {
    const nap = (lane: string) => task({ name: 'nap', lane, run: () => {} })
    const lanes = { first: { slots: 1 }, second: { slots: 0 }, third: { slots: 0 } }
    const app = await apps.open({ tasks: [nap('first')], lanes })
    await app.work()
    await app.moveTask('nap', 'second')
    const job = await app.submit('nap', null)

    const deployed = await apps.open({
      tasks: [nap('third')],
      lanes: { ...lanes, first: { tasks: ['nap'] } },
    })
    expect(await taskLane(deployed, 'nap')).toBe('second')
    expect(await laneOf(deployed, job.id)).toBe('second')
    const overrides = async () => (await app.laneOverrides()).moved.filter((each) => each.task === 'nap')
    expect(await overrides()).toMatchObject([{ lane: 'second', declaredLane: 'first' }])

    await apps.open({ tasks: [nap('third')], lanes })
    expect(await app.moveTask('nap', null)).toEqual({ task: 'nap', lane: 'third', moved: false })
    await until(async () => (await laneOf(app, job.id)) === 'third', 'the job to go back')
    expect(await overrides()).toEqual([])
    await app.setLane('third', { slots: 1 })
    await job.result()
  })

  test('gives jobs that come back for another attempt their new lane', async () => {
    const gate = new Gate()
    const shaky = task({
      name: 'shaky',
      lane: 'shaky-old',
      retry: { attempts: 2, delay: 10 },
      run: async (_: null, { attempt }) => {
        if (attempt > 1) return
        await gate.pass()
        throw new Error('once')
      },
    })
    const lanes = { 'shaky-old': { slots: 1 }, 'shaky-new': { slots: 1 } }
    const app = await apps.open({ tasks: [shaky], lanes })
    await app.work()
    const job = await app.submit(shaky, null)
    await gate.arrived()
    await app.moveTask('shaky', 'shaky-new')
    // Closed: the second attempt can only start where the task is now.
    await app.setLane('shaky-old', { enabled: false })
    gate.open()
    await job.result()
    expect(await app.getJob(job.id)).toMatchObject({ lane: 'shaky-new', attempt: 2 })
  })

  test('takes steps of running workflows along, and jobs that draw from budgets', async () => {
    const drawing = task({ name: 'drawing', lane: 'draw-old', uses: { seats: 1 }, run: (n: number) => n })
    const flow = workflow({
      name: 'drawing-all',
      steps: (flow: Flow<{ numbers: number[] }>) =>
        flow.each('all', flow.input.numbers, drawing, (n) => n, { concurrency: 2 }).results,
    })
    const lanes = { 'draw-old': { slots: 4, enabled: false }, 'draw-new': { slots: 4 } }
    const app = await apps.open({ tasks: [drawing], workflows: [flow], budgets: { seats: 2 }, lanes })
    await app.work({ capacity: 10 })
    const jobs = await app.submitMany(drawing, [1, 2, 3])
    const tree = await app.submit(flow, { numbers: [4, 5, 6, 7] })
    await until(async () => (await jobsByLane(database.sql, 'drawing'))['draw-old'] === 7, 'the steps')
    await app.moveTask('drawing', 'draw-new')
    expect(await Promise.all(jobs.map((job) => job.result()))).toEqual([1, 2, 3])
    expect(await tree.result()).toEqual([4, 5, 6, 7])
    expect(await laneOf(app, jobs[0]!.id)).toBe('draw-new')
  })

  test('takes thousands along in batches; a move that is cut short goes on where it stopped', async () => {
    const crowd = task({ name: 'crowd', lane: 'crowd-old', run: () => {} })
    const lanes = { 'crowd-old': { slots: 0 }, 'crowd-new': { slots: 0, ageing: '10m' as const } }
    const app = await apps.open({ tasks: [crowd], lanes })
    await app.work()
    await holdDuty(database.sql, 'follow')
    await app.submitMany(crowd, Array.from({ length: 1500 }))
    await app.submitMany(crowd, Array.from({ length: 1500 }), { runAt: new Date(Date.now() + 3_600_000) })
    await app.moveTask('crowd', 'crowd-new')

    expect(await jobsByLane(database.sql, 'crowd')).toEqual({ 'crowd-old': 3000 })
    expect(await moveOneBatch(database.sql, 200)).toBe(200)
    expect(await jobsByLane(database.sql, 'crowd')).toEqual({ 'crowd-old': 2800, 'crowd-new': 200 })
    await releaseDuty(database.sql, 'follow')
    await until(
      async () => (await jobsByLane(database.sql, 'crowd'))['crowd-new'] === 3000,
      'all jobs to follow',
    )
  })

  test('exceeds no limit while it is moved to and fro under load', async () => {
    let gate: Gate | undefined
    const run = async (n: number) => {
      await gate?.pass()
      return n
    }
    const busy = task({ name: 'busy', lane: 'busy-a', run })
    const lanes = { 'busy-a': { slots: 2, poll: 100 }, 'busy-b': { slots: 3, perWorker: 2, poll: 100 } }
    const [one, two] = [await apps.open({ tasks: [busy], lanes }), await apps.open({ tasks: [busy], lanes })]
    await one.work({ capacity: 4 })
    await two.work({ capacity: 4 })
    // Both lanes are full once, whatever chance does later.
    for (const [lane, slots] of [
      ['busy-b', 3],
      ['busy-a', 2],
    ] as const) {
      gate = new Gate()
      await one.moveTask('busy', lane)
      const held = await one.submitMany(busy, [1, 2, 3, 4, 5, 6])
      await gate.arrived(slots)
      gate.open()
      await Promise.all(held.map((job) => job.result()))
    }
    const jobs = await one.submitMany(
      busy,
      Array.from({ length: 600 }, (_, n) => n),
    )
    const done = Promise.all(jobs.map((job) => job.result()))
    let finished = false
    void done.then(() => {
      finished = true
    })
    for (let turn = 0; !finished; turn++) {
      const lane = turn % 2 === 0 ? 'busy-b' : 'busy-a'
      await one.moveTask('busy', lane)
      const more = await one.submit(busy, turn)
      await until(async () => finished || (await laneOf(one, more.id)) === lane, 'the move')
    }
    expect(await done).toHaveLength(600)
    const { peak } = await commits.catchUp()
    expect(peak.get('busy-a')).toBe(2)
    expect(peak.get('busy-b')).toBe(3)
  })
})

describe('a lane that an operator creates', () => {
  test('serves tasks that are moved there, and is nobody else’s to change', async () => {
    const guest = task({ name: 'guest', run: (n: number) => n })
    const app = await apps.open({ tasks: [guest] })
    expect(await app.createLane('made', { slots: 2, poll: '300ms' })).toMatchObject({
      ...{ name: 'made', slots: 2, perWorker: null, pollMs: 300, declared: false },
      operatorSet: ['slots', 'pollMs'],
    })
    await expect(app.createLane('made')).rejects.toMatchObject({ code: 'LANE_EXISTS' })
    await expect(app.createLane('no spaces')).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
    await expect(app.createLane('hasty', { stale: '1s' })).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
    await expect(app.resetLane('made')).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
    await expect(app.moveTask('guest', 'nowhere')).rejects.toMatchObject({ code: 'LANE_NOT_FOUND' })
    await expect(app.moveTask('nobody', 'made')).rejects.toMatchObject({ code: 'TASK_NOT_FOUND' })

    await app.work()
    await app.moveTask('guest', 'made')
    const job = await app.submit(guest, 7)
    expect(await job.result()).toBe(7)
    expect(await laneOf(app, job.id)).toBe('made')
    // A file that declares it later leaves alone what the operator set.
    await apps.open({ tasks: [guest], lanes: { made: { slots: 9, perWorker: 1 } } })
    const made = (await app.listLanes()).find(({ name }) => name === 'made')
    expect(made).toMatchObject({ slots: 2, perWorker: 1, declared: true })
    expect(await app.resetLane('made')).toMatchObject({ slots: 9, perWorker: 1, operatorSet: [] })
    expect(await taskLane(app, 'guest')).toBe('default')
  })
})

test('a lane that an operator creates without a stale time has that of the programs', async () => {
  const app = await apps.open({ stale: '17s' })
  expect(await app.createLane('patient')).toMatchObject({ staleMs: 17_000, operatorSet: [] })
  expect(await app.createLane('impatient', { stale: '11s' })).toMatchObject({ staleMs: 11_000 })
})

describe('a lane that an operator deletes', () => {
  test('reports what uses the lane, unless a target lane is given', async () => {
    const gate = new Gate()
    const inUse = task({ name: 'in-use', run: (_: null) => gate.pass() })
    const app = await apps.open({ tasks: [inUse] })
    await app.work()
    await app.createLane('full', { slots: 1 })
    const refused = (why: string) =>
      expect(app.deleteLane('full')).rejects.toMatchObject({
        code: 'LANE_IN_USE',
        message: `lane full is in use: ${why}. Name the lane to move its tasks and jobs to: sluice lanes delete full --move-to LANE`,
      })
    const job = await app.submit(inUse, null, { lane: 'full' })
    await gate.arrived()
    await refused('jobs run in it')
    const later = await app.submit(inUse, null, { lane: 'full', runAt: new Date(Date.now() + 3_600_000) })
    gate.open()
    await job.result()
    await refused('jobs wait in it')
    await app.cancel(later.id)
    await app.moveTask('in-use', 'full')
    await refused('tasks run in it: in-use')
    await app.moveTask('in-use', null)
    await app.deleteLane('full')
    expect((await app.listLanes()).map(({ name }) => name)).not.toContain('full')
    await expect(app.submit(inUse, null, { lane: 'full' })).rejects.toMatchObject({ code: 'LANE_NOT_FOUND' })
    await expect(app.deleteLane('full')).rejects.toMatchObject({ code: 'LANE_NOT_FOUND' })
    await expect(app.deleteLane('interactive')).rejects.toMatchObject({
      code: 'LANE_IN_USE',
      message: expect.stringContaining('a file or a program declares it'),
    })
    await expect(app.deleteLane('default', { moveTo: 'system' })).rejects.toMatchObject({
      code: 'LANE_IN_USE',
    })
  })

  test('stays deleted when programs declare it; its tasks and jobs go to the target lane', async () => {
    const gate = new Gate()
    const rest = task({ name: 'rest', lane: 'gone', run: (n: number) => gate.pass(String(n)) })
    const options = { tasks: [rest], lanes: { gone: { slots: 1 }, target: { slots: 1 } } }
    const app = await apps.open(options)
    await app.work({ capacity: 5 })
    const running = await app.submit(rest, 0)
    await gate.arrived()
    const waiting = await app.submit(rest, 1)
    const chosen = await app.submit(rest, 2, { lane: 'gone' })
    await app.deleteLane('gone', { moveTo: 'target' })

    await gate.arrived(2)
    await until(async () => (await laneOf(app, chosen.id)) === 'target', 'jobs that named the lane to follow')
    expect(await app.getJob(running.id)).toMatchObject({ lane: 'gone', status: 'running' })
    expect(await laneOf(app, waiting.id)).toBe('target')
    const deployed = await apps.open(options)
    expect((await deployed.listLanes()).map(({ name }) => name)).not.toContain('gone')
    expect(await taskLane(deployed, 'rest')).toBe('target')
    expect(await laneOf(app, (await deployed.submit(rest, 3, { lane: 'gone' })).id)).toBe('target')
    expect((await app.laneOverrides()).deleted).toMatchObject([{ lane: 'gone', movedTo: 'target' }])
    gate.open()
    await Promise.all([running, waiting, chosen].map((job) => job.result()))

    expect(await app.resetLane('gone')).toMatchObject({ slots: 1, enabled: true, tasks: ['rest'] })
    expect((await app.laneOverrides()).deleted).toEqual([])
    const back = await app.submit(rest, 4)
    expect(await laneOf(app, back.id)).toBe('gone')
    await back.result()
  })
})

describe('lanes that several sessions change at once', () => {
  test('resets a lane without a deadlock while another session locks a job and then the lane', async () => {
    const aged = task({ name: 'aged', lane: 'ageing', run: (_: null) => {} })
    const app = await apps.open({ tasks: [aged], lanes: { ageing: { slots: 0, ageing: '1m' } } })
    await app.setLane('ageing', { ageing: null })
    const { id } = await app.submit(aged, null, { priority: 3 })
    const client = await connect()
    await lockJob(client, id)
    const reset = app.resetLane('ageing')
    await until(async () => (await waitingSessions(database.sql)) > 0, 'the reset to wait for the job')
    await alsoLockLane(client, 'ageing')
    await client.query('commit')
    expect(await reset).toMatchObject({ ageingMs: 60_000, operatorSet: [] })
  })

  test('creates a deleted lane once', async () => {
    const app = await apps.open({})
    await app.createLane('twice')
    await app.deleteLane('twice')
    const client = await connect()
    await lockLane(client, 'twice')
    const both = Promise.allSettled([
      app.createLane('twice', { slots: 1 }),
      app.createLane('twice', { slots: 1 }),
    ])
    await until(async () => (await waitingSessions(database.sql)) > 1, 'both to wait for the lane')
    await client.query('commit')
    const outcomes = await both
    expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
    expect(outcomes.find(({ status }) => status === 'rejected')).toMatchObject({
      reason: { code: 'LANE_EXISTS' },
    })
  })

  test('does not delete a lane that a program puts a task into at the same time', async () => {
    const late = task({ name: 'late', run: () => {} })
    const app = await apps.open({ tasks: [late] })
    await app.createLane('wanted')
    const client = await connect()
    await saveTaskIn(client, 'late', 'wanted')
    const deleted = app.deleteLane('wanted')
    deleted.catch(() => {})
    await until(async () => (await waitingSessions(database.sql)) > 0, 'the deletion to wait for the task')
    await client.query('commit')
    await expect(deleted).rejects.toMatchObject({ code: 'LANE_IN_USE' })
  })

  test('creates a lane again when a program declares it that an operator deleted as unused', async () => {
    const app = await apps.open({})
    await app.createLane('unused', { slots: 3, poll: '300ms' })
    await app.deleteLane('unused')
    const user = task({ name: 'user', lane: 'unused', run: (n: number) => n })
    const program = await apps.open({ tasks: [user], lanes: { unused: { slots: 2 } } })
    await program.work()
    expect(await (await program.submit(user, 7)).result()).toBe(7)
    const unused = (await app.listLanes()).find(({ name }) => name === 'unused')
    expect(unused).toMatchObject({ slots: 2, enabled: true, operatorSet: [], tasks: ['user'] })
    expect(unused!.pollMs).not.toBe(300)
  })
})
