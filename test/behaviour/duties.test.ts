import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { Database } from '../../src/db/database.ts'
import type { Duty } from '../../src/duties/duty.ts'
import { expire } from '../../src/duties/expire.ts'
import { follow } from '../../src/duties/follow.ts'
import { reconcile } from '../../src/duties/reconcile.ts'
import { recover } from '../../src/duties/recover.ts'
import { DutyRunner } from '../../src/duties/runner.ts'
import { sample } from '../../src/duties/sample.ts'
import { readRecoveries } from '../../src/engine/views/recoveries.ts'
import { task } from '../../src/index.ts'
import { listDuties } from '../../src/store/list-duties.ts'
import { useApps } from '../support/apps.ts'
import { useDatabase } from '../support/database.ts'
import { Gate } from '../support/gate.ts'
import { plantAssigned, plantHolder, plantStarts, removeHolder } from '../support/state/assigned.ts'
import { lockSweep, setStale } from '../support/state/lanes.ts'
import { ageSaturation, plantReady } from '../support/state/waits.ts'
import { until } from '../support/until.ts'

const database = useDatabase()
const apps = useApps(database)
let db: Database

beforeAll(() => {
  db = new Database({ url: database.url, maxConnections: 10, applicationName: 'duties' })
})
afterAll(() => db.close())

function recordingLog() {
  const lines: { level: string; fields: Record<string, unknown>; message: string }[] = []
  const at = (level: string) => (fields: object, message: string) =>
    void lines.push({ level, fields: { ...fields }, message })
  return { lines, debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') }
}

test('a duty that had nothing to do is as old as the last look, and one that nobody looks for ages', async () => {
  const long = '2 hours'
  await database.sql(
    `insert into sluice.duties (name, due_at, ran_at) select n, now() - $1::interval, now() - $1::interval
       from unnest('{recover,expire,provision}'::text[]) n on conflict (name) do update set ran_at = excluded.ran_at`,
    [long],
  )
  await database.sql('update sluice.watch set last_at = now() - $1::interval', [long])
  const ages = async () => {
    const duties = await listDuties(db)
    return Object.fromEntries(duties.map(({ name, agoMs }) => [name, agoMs! < 60_000 ? 'young' : 'old']))
  }
  expect(await ages()).toEqual({ recover: 'old', expire: 'old', provision: 'old' })
  const runner = new DutyRunner(db, recordingLog(), 'looks', { duties: [recover, expire], tickMs: 10 })
  runner.start()
  await until(async () => (await ages()).recover === 'young', 'the look to be noted')
  await runner.stop()
  expect(await ages()).toEqual({ recover: 'young', expire: 'young', provision: 'old' })
  // Neither was claimed: there was nothing to do.
  const [row] = await database.sql<{ n: number }>(
    `select count(*)::integer as n from sluice.duties where ran_at > now() - interval '1 hour'`,
  )
  expect(row!.n).toBe(0)
  await database.sql('delete from sluice.duties')
})

test('a duty that always fails does not postpone the take-over of dead workers', async () => {
  const failing = { name: 'failing', everyMs: 10, run: () => Promise.reject(new Error('a bug in this duty')) }
  let good = 0
  const watching = {
    name: 'watching',
    everyMs: 10,
    run: async ({ goodForMs }: { goodForMs: number }) => {
      good = Math.max(good, goodForMs)
      return {}
    },
  }
  const log = recordingLog()
  const runner = new DutyRunner(db, log, 'failing', { duties: [failing, watching], tickMs: 10 })
  runner.start()
  // Taking over waits for an unbroken time of good looks: far longer here than a failing duty leaves between two failures.
  await until(() => good > 1000, 'an unbroken second')
  await runner.stop()
  expect(log.lines.filter(({ level }) => level === 'error').length).toBeGreaterThan(5)
  await database.sql('delete from sluice.duties')
})

test('a duty that takes long holds up neither the looks at the database nor the other duties', async () => {
  const gate = new Gate()
  const slow = { name: 'slow', everyMs: 10, run: async () => gate.pass().then(() => ({})) }
  let others = 0
  const other: Duty = {
    name: 'other',
    everyMs: 10,
    run: async () => {
      others++
      return {}
    },
  }
  const runner = new DutyRunner(db, recordingLog(), 'slow', { duties: [slow, other], tickMs: 10 })
  runner.start()
  await gate.arrived()
  await until(() => others >= 3, 'the other duty to run three times')
  gate.open()
  await runner.stop()
  await database.sql('delete from sluice.duties')
})

test('with ten processes, each tick of a duty goes to one of them', async () => {
  const EVERY_MS = 100
  let runs = 0
  const counts: Duty = {
    name: 'counts',
    everyMs: EVERY_MS,
    run: async () => {
      runs++
      return {}
    },
  }
  const log = recordingLog()
  const runners = Array.from(
    { length: 10 },
    (_, n) => new DutyRunner(db, log, `process ${n}`, { duties: [counts], tickMs: 10 }),
  )
  const started = performance.now()
  for (const runner of runners) runner.start()
  await until(() => runs >= 10, 'ten ticks')
  await Promise.all(runners.map((runner) => runner.stop()))

  expect(runs).toBeLessThanOrEqual(Math.floor((performance.now() - started) / EVERY_MS) + 1)
  expect(log.lines).toEqual([])
})

test('a tick that throws is logged, the other duties run, and the next tick runs', async () => {
  let tries = 0
  let others = 0
  const breaks: Duty = {
    name: 'breaks',
    everyMs: 1,
    run: async () => {
      if (++tries <= 2) throw new Error(`broke ${tries}`)
      return { summary: { fine: tries } }
    },
  }
  const other: Duty = {
    name: 'other',
    everyMs: 1,
    run: async () => {
      others++
      return {}
    },
  }
  const log = recordingLog()
  const runner = new DutyRunner(db, log, 'one', { duties: [breaks, other], tickMs: 10 })
  runner.start()
  await until(() => tries >= 4, 'four tries')
  await runner.stop()

  expect(log.lines.slice(0, 3)).toMatchObject([
    {
      level: 'error',
      fields: { duty: 'breaks', error: 'broke 1' },
      message: expect.stringContaining('next tick'),
    },
    { level: 'error', fields: { duty: 'breaks', error: 'broke 2' } },
    { level: 'info', fields: { duty: 'breaks', fine: 3 }, message: 'duty done' },
  ])
  expect(others).toBeGreaterThanOrEqual(2)
  expect(
    await database.sql(`select summary->'fine' as fine from sluice.duties where name = 'breaks'`),
  ).toEqual([{ fine: tries }])
})

test('a duty that only looked keeps its summary, and tells it at debug', async () => {
  const looks: Duty = {
    name: 'looks',
    everyMs: 1,
    run: async () => ({ summary: { waiting: 2 }, uneventful: true }),
  }
  const log = recordingLog()
  const runner = new DutyRunner(db, log, 'one', { duties: [looks], tickMs: 10 })
  runner.start()
  await until(() => log.lines.length > 0, 'a line')
  await runner.stop()

  expect(log.lines[0]).toEqual({
    level: 'debug',
    fields: { duty: 'looks', waiting: 2 },
    message: 'duty done',
  })
  expect(await database.sql(`select summary from sluice.duties where name = 'looks'`)).toEqual([
    { summary: { waiting: 2 } },
  ])
})

test('starting and stopping in any order, at any moment, is harmless', async () => {
  const log = recordingLog()
  await Promise.all(
    Array.from({ length: 60 }, async (_, n) => {
      const runner = new DutyRunner(db, log, `stress ${n}`, { tickMs: 2 })
      if (n % 5 === 0) await runner.stop()
      runner.start()
      runner.start()
      runner.promoteIn(n % 3)
      for (let turns = n % 7; turns > 0; turns--) await new Promise((resolve) => setImmediate(resolve))
      await Promise.all([runner.stop(), runner.stop()])
      runner.start()
      await runner.stop()
    }),
  )
  expect(log.lines.filter((line) => line.level === 'error' || line.level === 'warn')).toEqual([])
})

test('a runner that stops leaves nothing running on the pool it was given', async () => {
  const own = new Database({ url: database.url, maxConnections: 2, applicationName: 'own' })
  const log = recordingLog()
  const app = await apps.open({ tasks: [task({ name: 'later', run: (_: unknown) => null })] })
  for (let n = 0; n < 10; n++) {
    await app.submit('later', n, { runAt: 1 })
    const runner = new DutyRunner(own, log, 'leaving', { tickMs: 1 })
    runner.start()
    runner.promoteIn(1)
    for (let turns = 5 * n; turns > 0; turns--) await new Promise((resolve) => setImmediate(resolve))
    await runner.stop()
  }
  await own.close()
  expect(log.lines.filter((line) => line.level === 'error' || line.level === 'warn')).toEqual([])
  await database.sql(`delete from sluice.jobs where task = 'later'`)
})

test('ten that promote, expire and recover at once do each once', async () => {
  const due = task({ name: 'due', lane: 'none', run: (_: unknown) => null })
  const late = task({ name: 'late', lane: 'none', run: (_: unknown) => null })
  const lost = task({ name: 'lost', lane: 'shaky', run: (_: unknown) => null })
  const app = await apps.open({
    tasks: [due, late, lost],
    lanes: { none: { slots: 1, enabled: false }, shaky: { slots: 100, enabled: false } },
  })
  await app.submitMany(due, Array.from({ length: 500 }), { runAt: 1 })
  await app.submitMany(late, Array.from({ length: 300 }), { deadline: 1 })
  await app.submitMany(lost, Array.from({ length: 60 }))
  await plantDeadWorkers('lost', 3)
  await database.sql(`update sluice.lanes set stale_ms = 50 where name = 'shaky'`)

  const log = recordingLog()
  const runners = Array.from(
    { length: 10 },
    (_, n) => new DutyRunner(db, log, `process ${n}`, { tickMs: 20 }),
  )
  for (const runner of runners) runner.start()
  const states = (name: string, state: string) =>
    database.sql(`select 1 from sluice.jobs where task = $1 and state = $2::sluice.job_state`, [name, state])
  await until(async () => (await states('due', 'ready')).length === 500, 'all to be promoted')
  await until(async () => (await states('late', 'failed')).length === 300, 'all to expire')
  await until(async () => (await states('lost', 'ready')).length === 60, 'all to be recovered')
  await Promise.all(runners.map((runner) => runner.stop()))
  await database.sql(`update sluice.lanes set stale_ms = 15000 where name = 'shaky'`)

  expect(log.lines.filter((line) => line.level === 'error')).toEqual([])
  const [counts] = await database.sql(
    `select count(*)::integer as attempts, count(distinct job_id)::integer as jobs from sluice.attempts where ending = 'lost'`,
  )
  expect(counts).toEqual({ attempts: 60, jobs: 60 })
  expect(
    await database.sql(`select distinct losses, failures, attempt from sluice.jobs where task = 'lost'`),
  ).toEqual([{ losses: 1, failures: 0, attempt: 1 }])
  const taken = log.lines.filter((line) => line.message === 'took over the jobs of a silent worker')
  expect(taken.reduce((sum, line) => sum + Number(line.fields.requeued), 0)).toBe(60)
  expect(
    await database.sql(`select 1 from sluice.workers where name like 'dead%' and ended_at is null`),
  ).toEqual([])
})

test('a lost job is tried again, failed or cancelled, as its task and its state say', async () => {
  const again = task({ name: 'again', lane: 'gone', losses: 1, run: (_: unknown) => null })
  const never = task({ name: 'never', lane: 'gone', onLost: 'fail', run: (_: unknown) => null })
  const app = await apps.open({ tasks: [again, never], lanes: { gone: { slots: 10, enabled: false } } })
  const first = await app.submit(again, 1)
  const last = await app.submit(again, 2)
  const harmful = await app.submit(never, 3)
  const unwanted = await app.submit(again, 4)
  await database.sql('update sluice.jobs set losses = 1 where id = $1', [last.id])
  await plantDeadWorkers('again', 1)
  await plantDeadWorkers('never', 1)
  await app.cancel(unwanted.id, 'too late')
  await database.sql(`update sluice.lanes set stale_ms = 50 where name = 'gone'`)
  await database.sql('select sluice.recover_lost_workers_v1(1000000)')
  await database.sql(`update sluice.lanes set stale_ms = 15000 where name = 'gone'`)

  const text = expect.stringMatching(/^lost: worker dead \d+ stopped answering during attempt 1$/)
  expect(await app.getJob(first.id)).toMatchObject({ status: 'queued', losses: 1, failures: 0, error: text })
  expect(await app.getJob(last.id)).toMatchObject({ status: 'failed', losses: 2, error: text })
  expect(await app.getJob(harmful.id)).toMatchObject({ status: 'failed', losses: 1, error: text })
  expect(await app.getJob(unwanted.id)).toMatchObject({ status: 'cancelled', error: 'cancelled: too late' })
  expect(await app.listAttempts(first.id)).toMatchObject([{ attempt: 1, ending: 'lost', error: text }])
  const { events } = await readRecoveries(db, { kind: 'taken_over', limit: 2 })
  expect(events).toMatchObject([
    { worker: 'dead 0', lane: 'gone', jobs: 1, failed: 1 },
    { worker: 'dead 0', lane: 'gone', jobs: 3, requeued: 1, failed: 1, cancelled: 1 },
  ])
})

test('a worker that was heard of lately is left alone, and so is everybody until the caller has looked long enough', async () => {
  const calm = task({ name: 'calm', lane: 'calm', run: (_: unknown) => null })
  const app = await apps.open({ tasks: [calm], lanes: { calm: { slots: 10, enabled: false } } })
  const job = await app.submit(calm, 1)
  await plantDeadWorkers('calm', 1)
  await database.sql(`update sluice.lanes set stale_ms = 1000 where name = 'calm'`)
  const recover = (goodForMs: number) =>
    database.sql('select * from sluice.recover_lost_workers_v1($1)', [goodForMs])

  expect(await recover(999), 'not long enough').toEqual([])
  await database.sql(`update sluice.workers set seen_at = clock_timestamp() where name like 'dead%'`)
  expect(await recover(1_000_000), 'heard of lately').toEqual([])
  expect(await app.getJob(job.id)).toMatchObject({ status: 'running' })
  await database.sql(
    `update sluice.workers set seen_at = clock_timestamp() - interval '1 h' where name like 'dead%'`,
  )
  expect(await recover(1000)).toMatchObject([{ requeued: 1 }])
  await database.sql(`update sluice.lanes set stale_ms = 15000 where name = 'calm'`)
})

test('reports and repairs drift between slots and running jobs', async () => {
  const adrift = task({ name: 'adrift', lane: 'drift', run: (_: unknown) => null })
  const harmful = task({ name: 'harmfulTwice', lane: 'drift', onLost: 'fail', run: (_: unknown) => null })
  const app = await apps.open({
    tasks: [adrift, harmful],
    lanes: { drift: { slots: 10, enabled: false } },
  })
  const jobs = await app.submitMany(adrift, [1, 2, 3])
  const once = await app.submit(harmful, 1)
  await plantDeadWorkers('adrift', 1)
  await database.sql(`update sluice.holdings set slots = 1 where lane = 'drift'`)
  // And two that run under nobody at all.
  await database.sql(
    `update sluice.jobs set worker_id = 999999, state = 'running', attempt = 1, started_at = clock_timestamp() where id = any ($1)`,
    [[jobs[2]!.id, once.id]],
  )
  const log = recordingLog()

  await reconcile.run({ db, log, goodForMs: 0, isStopping: () => false })

  expect(log.lines).toMatchObject([
    {
      level: 'error',
      fields: { lane: 'drift', held: 1, running: 2 },
      message: expect.stringContaining('DRIFT'),
    },
    { level: 'error', fields: { lane: 'drift', running: 2 }, message: expect.stringContaining('DRIFT') },
  ])
  expect(await database.sql(`select slots from sluice.holdings where lane = 'drift'`)).toEqual([{ slots: 2 }])
  expect(await app.getJob(jobs[2]!.id)).toMatchObject({
    status: 'queued',
    losses: 1,
    error: 'lost: no worker held this job during attempt 1',
  })
  expect(await app.listAttempts(jobs[2]!.id)).toMatchObject([{ attempt: 1, ending: 'lost' }])
  expect(await app.getJob(once.id)).toMatchObject({ status: 'failed', losses: 1 })
  const { events } = await readRecoveries(db, { limit: 10 })
  expect(events.slice(0, 2).sort((a, b) => (a.kind < b.kind ? -1 : 1))).toMatchObject([
    { kind: 'drift', lane: 'drift', detail: expect.stringContaining('ran 2 and held 1') },
    { kind: 'orphan', lane: 'drift', jobs: 2, requeued: 1, failed: 1, jobIds: [jobs[2]!.id, once.id] },
  ])
  log.lines.length = 0
  await reconcile.run({ db, log, goodForMs: 0, isStopping: () => false })
  expect(log.lines).toEqual([])
  await database.sql('delete from sluice.jobs')
  await database.sql('delete from sluice.workers')
})

test('jobs that are assigned beyond the slots of a worker are no drift', async () => {
  const ahead = task({ name: 'ahead', lane: 'ahead', run: (_: unknown) => null })
  const app = await apps.open({ tasks: [ahead], lanes: { ahead: { slots: 2 } } })
  const jobs = await app.submitMany(ahead, [1, 2, 3, 4, 5])
  const holder = await plantHolder(database.sql, 'holds two', 'ahead')
  await plantAssigned(
    database.sql,
    holder,
    jobs.map(({ id }) => id),
    2,
  )
  const log = recordingLog()
  const run = () => reconcile.run({ db, log, goodForMs: 0, isStopping: () => false })
  await run()
  expect(log.lines).toEqual([])
  // One that starts beyond the slots is.
  await plantStarts(database.sql, holder, [jobs[4]!.id])
  await run()
  expect(log.lines).toMatchObject([{ level: 'error', fields: { lane: 'ahead', held: 2, running: 3 } }])
  await removeHolder(database.sql, holder)
  await database.sql('delete from sluice.jobs')
})

test('a job that is assigned to nobody comes back without a loss', async () => {
  const forsaken = task({ name: 'forsaken', lane: 'forsaken', losses: 0, run: (_: unknown) => null })
  const app = await apps.open({ tasks: [forsaken], lanes: { forsaken: { slots: 2 } } })
  const [runs, assigned] = await app.submitMany(forsaken, [1, 2])
  const holder = await plantHolder(database.sql, 'is gone', 'forsaken')
  await plantAssigned(database.sql, holder, [runs!.id, assigned!.id], 1)
  await database.sql('delete from sluice.holdings where worker_id = $1', [holder])
  await reconcile.run({ db, log: recordingLog(), goodForMs: 0, isStopping: () => false })

  expect(await app.getJob(runs!.id)).toMatchObject({ status: 'failed', losses: 1 })
  expect(await app.getJob(assigned!.id)).toMatchObject({ status: 'queued', losses: 0 })
  expect(await app.listAttempts(assigned!.id)).toMatchObject([{ attempt: 1, ending: 'returned' }])
  await removeHolder(database.sql, holder)
  await database.sql('delete from sluice.jobs')
})

test('a lane whose jobs wait for capacity gets one warning per episode, before any deadline passes', async () => {
  const flood = task({ name: 'flood', lane: 'dam', run: (_: unknown) => null })
  const app = await apps.open({ tasks: [flood], lanes: { dam: { slots: 1, enabled: false } } })
  const log = recordingLog()
  const tick = () => sample.run({ db, log, goodForMs: 0, isStopping: () => false })
  const jobs = await app.submitMany(flood, Array.from({ length: 7 }), { deadline: '1h' })
  await plantReady(database.sql, jobs[0]!.id, 5)

  const report = await tick()
  expect(log.lines).toMatchObject([
    {
      level: 'warn',
      fields: {
        lane: 'dam',
        depth: 7,
        tasks: [{ task: 'flood', depth: 7, reason: 'lane dam is paused' }],
      },
      message: 'jobs wait for capacity',
    },
  ])
  expect(log.lines[0]!.fields.oldestWaitMs).toBeGreaterThanOrEqual(5000)
  expect(report.summary).toEqual({ waiting: 7, classes: 1, blocked: 1 })

  // Another process that runs the duty next, and a pause of less than a minute, belong to the same episode.
  const other = new Database({ url: database.url, maxConnections: 1, applicationName: 'other' })
  await sample.run({ db: other, log, goodForMs: 0, isStopping: () => false })
  await other.close()
  await app.setLane('dam', { enabled: true })
  await tick()
  await app.setLane('dam', { enabled: false })
  await tick()
  expect(log.lines).toHaveLength(1)

  await app.cancelMany({ task: 'flood' })
  await ageSaturation(database.sql, 61)
  await tick()
  const ofDam = () => log.lines.filter(({ fields }) => fields.lane === 'dam')
  expect(ofDam()[1]).toMatchObject({
    level: 'info',
    message: 'jobs no longer wait for capacity',
    fields: { lane: 'dam', deepest: 7 },
  })
  // A deadline that is near makes it urgent, however short the wait has been.
  await app.submit(flood, undefined, { deadline: '3s' })
  await tick()
  expect(ofDam()[2]).toMatchObject({ level: 'warn', fields: { lane: 'dam', depth: 1 } })
  await app.cancelMany({ task: 'flood' })
})

test('reports the wait of the job that has waited longest, not of the first in line', async () => {
  const slow = task({ name: 'slow', run: (_: unknown) => null })
  const app = await apps.open({ tasks: [slow] })
  const first = await app.submit(slow, undefined)
  const second = await app.submit(slow, undefined)
  // As after a retry, or where a window lets in a child that was made early.
  await database.sql(`update sluice.jobs set ready_at = ready_at - interval '1 hour' where id = $1`, [
    second.id,
  ])
  const found = (await app.sampleQueues()).find((each) => each.task === 'slow')
  expect(found!.oldestAt).toEqual((await app.getJob(second.id)).readyAt)
  expect(Number(first.id)).toBeLessThan(Number(second.id))
  await database.sql('delete from sluice.jobs')
})

/** Workers that have been silent for an hour and run all jobs of the task between them. */
async function plantDeadWorkers(name: string, count: number): Promise<void> {
  for (let n = 0; n < count; n++) {
    const [worker] = await database.sql<{ id: string }>(
      `select sluice.register_worker_v1('dead ${n}', 'host', 1, '0', 0, 1, $1) as id`,
      [[name]],
    )
    await database.sql('select sluice.resync_v1($1)', [worker!.id])
    await database.sql(
      `with mine as (
         update sluice.jobs set state = 'running', worker_id = $1, attempt = 1, started_at = clock_timestamp()
          where task = $2 and state = 'ready' and id % $3 = $4 returning 1
       ) update sluice.holdings set slots = (select count(*) from mine) where worker_id = $1`,
      [worker!.id, name, count, n],
    )
    await database.sql(
      `update sluice.workers set seen_at = clock_timestamp() - interval '1 h' where id = $1`,
      [worker!.id],
    )
  }
}

test('following moved tasks ends its tick without progress, after 20 batches, and when the process stops', async () => {
  const log = recordingLog()
  const context = { db, log, goodForMs: 0, isStopping: () => false }
  const client = new pg.Client(database.url)
  await client.connect()
  await lockSweep(client)
  let statements = 0
  const counting = {
    address: db.address,
    run: ((statement, values) => {
      if (++statements > 100) throw new Error('the tick does not end')
      return db.run(statement, values)
    }) as Database['run'],
  }
  expect(await follow.run({ ...context, db: counting })).toEqual({})
  expect(statements).toBe(2)
  await client.end()

  statements = 0
  const endless = {
    address: db.address,
    run: async () => [{ moved: ++statements, changed: 0, more: true }] as never[],
  }
  await follow.run({ ...context, db: endless })
  expect(statements).toBe(40)
  statements = 0
  await follow.run({ ...context, db: endless, isStopping: () => statements >= 4 })
  expect(statements).toBe(4)
})

test('taking over, expiring and reconciling wait behind no other duty', async () => {
  const lost = task({ name: 'urgentLost', lane: 'urgent', run: (_: unknown) => null })
  const app = await apps.open({ tasks: [lost], lanes: { urgent: { slots: 10, enabled: false } } })
  const gate = new Gate()
  let held = 0
  // Three that take for ever: one of every look would be enough to hold up what was claimed with it.
  const slow = ['slow 1', 'slow 2', 'slow 3'].map((name) => ({
    name,
    everyMs: 10,
    run: async () => {
      held++
      return gate.pass().then(() => ({}))
    },
  }))
  let reconciled = 0
  const compare: Duty = {
    ...reconcile,
    everyMs: 10,
    run: async () => {
      reconciled++
      return {}
    },
  }
  const duties = [...slow, recover, expire, compare]
  const runner = new DutyRunner(db, recordingLog(), 'urgent', { duties, tickMs: 10 })
  runner.start()
  await until(() => held >= 2, 'as many slow duties as run at once')
  const before = reconciled
  await until(() => reconciled > before, 'the comparison')
  const running = await app.submit(lost, 1)
  await plantDeadWorkers('urgentLost', 1)
  const late = await app.submit(lost, 2, { deadline: 1 })
  await setStale(database.sql, 'urgent', 50)
  await until(async () => (await app.getJob(late.id)).status === 'failed', 'the deadline')
  await until(async () => (await app.getJob(running.id)).status === 'queued', 'the take-over')
  gate.open()
  await runner.stop()
  await setStale(database.sql, 'urgent', 15_000)
  await database.sql('delete from sluice.duties')
})
