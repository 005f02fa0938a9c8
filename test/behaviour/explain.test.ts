import { expect, onTestFinished, test, vi } from 'vitest'
import { Database } from '../../src/db/database.ts'
import { checkQueues } from '../../src/engine/diagnosis/queues.ts'
import { type Sluice, snooze, task } from '../../src/index.ts'
import { pruneLeftovers } from '../../src/store/prune-leftovers.ts'
import { sampleQueues } from '../../src/store/sample-queues.ts'
import { useApps } from '../support/apps.ts'
import { useDatabase } from '../support/database.ts'
import { Gate } from '../support/gate.ts'
import { plantBrokenWorker, removeWorker } from '../support/state/attention.ts'
import { forgetJobs } from '../support/state/jobs.ts'
import { plantPasses, plantReady } from '../support/state/waits.ts'
import { findStep } from '../support/trees.ts'
import { until } from '../support/until.ts'

const database = useDatabase()
const apps = useApps(database)

async function why(app: Sluice, job: { id: string }): Promise<string> {
  return (await app.why(job.id)).reason
}

test('a job that is not due, awaits approval, backs off or snoozes says so', async () => {
  const plain = task({ name: 'plain', run: (_: unknown) => null })
  const asks = task({ name: 'asks', approval: true, run: (_: unknown) => null })
  const breaks = task({
    name: 'breaks',
    retry: { delay: '1h' },
    run: (how: string) => {
      throw how === 'snooze' ? snooze(3_600_000) : new Error('the disk is full')
    },
  })
  const app = await apps.open({ tasks: [plain, asks, breaks] })
  const later = await app.submit(plain, 1, { runAt: new Date('2100-01-01') })
  const unapproved = await app.submit(asks, 1)
  await app.work()
  const broken = await app.submit(breaks, 'fail')
  const snoozes = await app.submit(breaks, 'snooze')
  for (const job of [broken, snoozes])
    await until(async () => (await app.getJob(job.id)).state === 'scheduled', 'both to wait')

  expect(await why(app, later)).toBe('it is scheduled for 2100-01-01T00:00:00.000Z')
  expect(await why(app, unapproved)).toBe('it is waiting for approval')
  expect(await why(app, broken)).toMatch(/^it failed \(the disk is full\) and will be retried at 20/)
  expect(await why(app, snoozes)).toMatch(/^it is scheduled for 20/)
})

test('a job without capacity names what it lacks', async () => {
  const gate = new Gate()
  const held = task({ name: 'held', lane: 'tight', run: () => gate.pass() })
  const choosy = task({ name: 'choosy', requires: { gpu: true }, run: () => null })
  const app = await apps.open({ tasks: [held, choosy], lanes: { tight: { slots: 2 } }, actor: 'op' })

  const waiting = await app.submit(held, undefined)
  expect(await why(app, waiting)).toBe('no worker runs task held')
  await app.setLane('tight', { enabled: false })
  expect(await why(app, waiting)).toBe('lane tight is paused')
  expect((await app.why(waiting.id)).words[1]).toMatch(/^the lane was paused by op at 20\S+Z$/)
  const other = await apps.open({ actor: 'ann', reason: 'the disk is full' })
  await app.setLane('tight', { enabled: true })
  await other.setLane('tight', { enabled: false })
  await app.setLane('tight', { poll: '3s' })
  const { wait, words } = await app.why(waiting.id)
  expect(wait).toMatchObject({ kind: 'lane_paused', by: 'ann' })
  expect(words[1]).toMatch(/^the lane was paused by ann at 20\S+Z: the disk is full$/)
  await app.setLane('tight', { enabled: true, slots: 0 })
  expect((await app.why(waiting.id)).wait).toMatchObject({ kind: 'lane_closed', lane: 'tight', by: 'op' })
  expect(await why(app, waiting)).toBe(
    'lane tight is closed: it has 0 slots. Open it with: sluice lanes set tight --slots NUMBER',
  )
  await app.setLane('tight', { enabled: false, slots: 2 })
  await app.work({ capacity: 1, name: 'w', labels: { gpu: false } })
  await app.setLane('tight', { enabled: true })
  await gate.arrived()
  const second = await app.submit(held, undefined)
  expect(await why(app, second)).toBe('every worker that runs task held is at capacity')
  await app.setLane('tight', { slots: 1 })
  expect(await why(app, second)).toBe('lane tight is full: 1 of 1 slots are busy')
  await app.drainWorker('w')
  expect(await why(app, second)).toBe('every worker that runs task held is draining')
  await app.drainWorker('w', false)
  const unfit = await app.submit(choosy, undefined)
  expect(await why(app, unfit)).toBe(
    'no worker that runs task choosy has the labels it requires: {"gpu": true}',
  )

  gate.open()
  await second.result()
  await app.stopWorking()
  await app.work({ labels: { gpu: true, cores: 4 } })
  await unfit.result()
})

test('a job that only silent workers could take says which of them was heard last', async () => {
  const unheard = task({ name: 'unheard', run: () => null })
  const app = await apps.open({ tasks: [unheard] })
  const job = await app.submit(unheard, undefined)
  await database.sql(
    `insert into sluice.workers (name, host, pid, version, capacity, cores, tasks, seen_at, generation)
     select name, 'gone', 1, '0', 8, 1, '{unheard}', now() - silent, (select g.id from sluice.generation g)
       from (values ('older', interval '20 minutes'), ('newer', interval '10 minutes')) w(name, silent)`,
  )
  const { wait, reason, estimateSeconds } = await app.why(job.id)
  expect([wait.kind, estimateSeconds]).toEqual(['silent', null])
  expect(reason).toMatch(
    /^every worker that could run task unheard is silent: newer sent its last heartbeat 60\d seconds ago$/,
  )
  await app.work({ capacity: 1 })
  await job.result()
})

test('estimates go by the clock of the database, whatever that of the process says', async () => {
  const gate = new Gate()
  const slow = task({ name: 'measured', run: (item: number) => (item === 0 ? null : gate.pass()) })
  const fan = { task: 'measured', with_items: '${{ input }}', with: '${{ item }}' }
  const app = await apps.open({
    tasks: [slow],
    workflows: [{ name: 'spread', definition: { steps: { fan } } }],
  })
  await app.work({ capacity: 4 })
  const later = await app.submit(slow, 0, { runAt: '1h' })
  const run = await app.submit('spread', [0, 1])
  const half = await until(async () => {
    const step = await findStep(database.sql, run.id, 'fan')
    if (step === undefined) return undefined
    return (await app.why(step)).estimateSeconds === null ? undefined : step
  }, 'one of two children to end')
  const real = Date.now
  vi.spyOn(Date, 'now').mockImplementation(() => real() + 2 * 3_600_000)
  onTestFinished(() => void vi.restoreAllMocks())
  const due = (await app.why(later.id)).estimateSeconds!
  expect(due).toBeGreaterThan(3400)
  expect(due).toBeLessThanOrEqual(3600)
  expect((await app.why(half)).estimateSeconds).toBeLessThan(3600)
  vi.restoreAllMocks()
  gate.open()
  await run.result()
  await app.stopWorking()
})

test('a job that only waits its turn says how many wait with it; one alone, that nothing blocks it', async () => {
  const lined = task({ name: 'lined', lane: 'line', run: () => null })
  const app = await apps.open({ tasks: [lined], lanes: { line: { slots: 1, poll: '1h' } } })
  // A worker that is there, and takes nothing just now.
  await database.sql(
    `insert into sluice.workers (name, host, pid, version, capacity, cores, tasks) values ('idle', 'h', 1, '0', 1, 1, '{lined}')`,
  )
  const first = await app.submit(lined, undefined)
  expect(await why(app, first)).toBe('Nothing is blocking it. A worker will pick it up on its next poll')
  await app.submitMany(lined, Array.from({ length: 3 }))
  expect(await why(app, first)).toBe('its turn: 3 others of task lined wait in lane line')
  await database.sql(`delete from sluice.workers where name = 'idle'`)
})

test('a job that runs or has ended says that it does not wait', async () => {
  const gate = new Gate()
  const held = task({ name: 'ends', run: () => gate.pass() })
  const app = await apps.open({ tasks: [held] })
  await app.work({ name: 'here' })
  const job = await app.submit(held, undefined)
  const cancelled = await app.submit(held, undefined)
  await app.cancel(cancelled.id)
  await gate.arrived()

  expect(await why(app, job)).toBe('it is not waiting: it runs on here')
  expect(await why(app, cancelled)).toBe('it is not waiting: it has been cancelled')
  expect((await app.why(cancelled.id)).words).toEqual([
    `job ${cancelled.id} (ends) is not waiting: it has been cancelled`,
  ])
  gate.open()
  await job.result()
  expect(await why(app, job)).toBe('it is not waiting: it has completed')
  await expect(app.why('99999')).rejects.toMatchObject({ code: 'JOB_NOT_FOUND' })
})

test('a workflow that nobody moves on says so, and one that is moved on does not', async () => {
  const quick = task({ name: 'quick', run: () => null })
  const definition = { steps: { one: { task: 'quick' } } }
  const app = await apps.open({ tasks: [quick], workflows: [{ name: 'alone', definition }] })
  const job = await app.submit('alone', null)
  expect(await why(app, job)).toBe('it waits for its steps: 0 of 1 steps have ended')
  await database.sql(`update sluice.wakeups set due_at = due_at - interval '1 minute' where job_id = $1`, [
    job.id,
  ])
  expect(await why(app, job)).toMatch(
    /^no process advances it: it was woken 6\d s ago, but no worker or server is running./,
  )
  await app.work()
  await job.result()
  expect(await why(app, job)).toBe('it is not waiting: it has completed')
})

test('each job keeps how often it was passed over, and why', async () => {
  const passed = task({ name: 'passed', lane: 'passing', run: () => null })
  const app = await apps.open({ tasks: [passed], lanes: { passing: { slots: 1 } } })
  const job = await app.submit(passed, undefined)
  const db = new Database({ url: database.url, maxConnections: 1, applicationName: 'sampling' })
  try {
    for (let n = 0; n < 3; n++) await sampleQueues(db)
    await app.setLane('passing', { enabled: false })
    for (let n = 0; n < 5; n++) await sampleQueues(db)
    await sampleQueues(db)

    expect((await app.why(job.id)).passedOver).toEqual([
      { reason: 'lane passing is paused', times: 6 },
      { reason: 'no worker runs task passed', times: 3 },
    ])
    // It stays with the job when it has run, and nothing is added.
    await app.setLane('passing', { enabled: true })
    await app.work()
    await job.result()
    await app.stopWorking()
    expect((await app.why(job.id)).passedOver).toHaveLength(2)
  } finally {
    await db.close()
  }
})

test('a job says why it was passed over for as long as it is kept, from one row per reason', async () => {
  const patient = task({ name: 'patient', lane: 'patience', run: () => null })
  const app = await apps.open({ tasks: [patient], lanes: { patience: { slots: 1 } }, retention: '90d' })
  await forgetJobs(database.sql)
  const early = await app.submit(patient, undefined)
  const late = await app.submit(patient, undefined)
  const DAY = 86_400
  await plantReady(database.sql, early.id, 20 * DAY)
  await plantReady(database.sql, late.id, 19 * DAY + 100)
  // Two days, a sample every 2 s.
  await plantPasses(database.sql, early.id, {
    obstacle: 'lane_paused',
    details: { lane: 'patience' },
    since: 20 * DAY,
    until: 19 * DAY,
    times: DAY / 2,
  })
  const db = new Database({ url: database.url, maxConnections: 1, applicationName: 'pruning' })
  try {
    await pruneLeftovers(db)
  } finally {
    await db.close()
  }
  const [reason] = (await app.why(early.id)).passedOver
  expect(reason).toEqual({ reason: 'lane patience is paused', times: DAY / 2 })
  // It waited through the last 100 s of it.
  expect((await app.why(late.id)).passedOver).toEqual([{ reason: 'lane patience is paused', times: 50 }])
  await app.work()
  await Promise.all([early.result(), late.result()])
  expect((await app.why(early.id)).passedOver).toHaveLength(1)
})

test('advises by what blocks a job, whatever the message of a broken worker says', async () => {
  const advised = task({ name: 'advised', run: () => null })
  const app = await apps.open({ tasks: [advised] })
  await app.submit(advised, undefined)
  await plantBrokenWorker(database.sql, 'bent', 'the initialiser cannot start task runners', ['advised'])
  onTestFinished(() => removeWorker(database.sql, 'bent'))
  expect((await app.sampleQueues()).find((each) => each.task === 'advised')).toMatchObject({
    obstacle: 'draining',
    reason:
      'every worker that runs task advised is draining or broken: worker bent: the initialiser cannot start task runners',
  })
  const db = new Database({ url: database.url, maxConnections: 1, applicationName: 'advice' })
  onTestFinished(() => db.close())
  expect(await checkQueues({ db })).toContainEqual(
    expect.objectContaining({
      check: 'task advised',
      level: 'note',
      advice: expect.stringContaining('undrain NAME'),
    }),
  )
})

test('depth and oldest wait can be seen per task and lane', async () => {
  const deep = task({ name: 'deep', run: (_: unknown) => null })
  const app = await apps.open({ tasks: [deep] })
  await app.submitMany(deep, Array.from({ length: 30 }))
  const urgent = await app.submit(deep, 1, { priority: 9 })
  await app.submit(deep, 1, { lane: 'system' })
  await app.submit(deep, 1, { runAt: '1h' })
  await database.sql(`update sluice.jobs set ready_at = ready_at - interval '1 day' where id = $1`, [
    urgent.id,
  ])

  const mine = (await app.sampleQueues()).filter((each) => each.task === 'deep')
  const inDefault = mine.find((each) => each.lane === 'default')!
  expect(inDefault).toMatchObject({ depth: 31, reason: 'no worker runs task deep' })
  expect(inDefault.oldestAt).toEqual((await app.getJob(urgent.id)).readyAt)
  expect(mine.find((each) => each.lane === 'system')).toMatchObject({ depth: 1 })
})

test('tasks that several workers cannot start name the first and count the others', async () => {
  const said = async (workers: number) => {
    const first = { worker: 'w1', why: 'no disk', retryAt: 'noon' }
    const details = JSON.stringify({ task: 'draw', workers, first })
    const [row] = await database.sql<{ text: string }>(
      `select sluice.why_waiting_text_v1('withdrawn', $1) as text`,
      [details],
    )
    return row!.text
  }
  const begin = 'worker w1 cannot start task draw: no disk; retries at noon'
  expect(await said(1)).toBe(begin)
  expect(await said(2)).toBe(`${begin}; 1 other worker cannot start it either`)
  expect(await said(4)).toBe(`${begin}; 3 other workers cannot start it either`)
})
