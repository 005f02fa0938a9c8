import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { checkConfig } from '../../src/config/check-config.ts'
import { Database } from '../../src/db/database.ts'
import { DutyRunner } from '../../src/duties/runner.ts'
import { fireDue } from '../../src/engine/schedules/fire-schedules.ts'
import { type LoadedConfig, type Log, type Sluice, task } from '../../src/index.ts'
import { useApps } from '../support/apps.ts'
import { useDatabase } from '../support/database.ts'
import { ALL_JOB_TABLES } from '../support/state/jobs.ts'
import { until } from '../support/until.ts'

const database = useDatabase()
const apps = useApps(database)
const nothing = () => {}
const quiet: Log = { debug: nothing, info: nothing, warn: nothing, error: nothing }
const report = task({ name: 'report', run: (input: unknown) => input })
const chain = { name: 'chain', definition: { steps: { one: { task: 'report' } } } }

/** Where there are ten of them, each is a process of its own as far as the database can tell. */
let processes: Database[]
let app: Sluice

beforeAll(() => {
  processes = Array.from(
    { length: 10 },
    () => new Database({ url: database.url, maxConnections: 2, applicationName: 'schedules' }),
  )
})
afterAll(async () => {
  for (const db of processes) await db.close()
})
beforeEach(async () => {
  await database.sql(`truncate sluice.schedules, sluice.firings, ${ALL_JOB_TABLES} cascade`)
  app = await apps.open({ tasks: [report], workflows: [chain] })
})

/** The schedule's first tick from then on, so that a test need not wait for it. */
async function startAt(name: string, nextAt: string): Promise<void> {
  await database.sql('update sluice.schedules set next_at = $2 where name = $1', [name, nextAt])
}

function fire(now: string, db = processes[0]!) {
  return fireDue(db, quiet, { now: new Date(now) })
}

async function ticksOf(name: string): Promise<string[]> {
  const rows = await database.sql<{
    tick: string
    skipped: string | null
    ticks: number
    job_id: string | null
  }>(
    `select to_char(tick_at at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS') as tick, skipped, ticks, job_id
       from sluice.firings where schedule = $1 order by tick_at`,
    [name],
  )
  return rows.map(({ tick, skipped, ticks, job_id }) =>
    [tick, job_id === null ? skipped : 'job', ...(ticks === 1 ? [] : [ticks])].join(' '),
  )
}

describe('firing', () => {
  test('with ten processes at it, each of many ticks gets one job and one record', async () => {
    await app.createSchedule('often', { task: 'report', cron: '* * * * *', input: { from: 'often' } })
    await app.createSchedule('also', { workflow: 'chain', cron: '*/2 * * * *' })
    await startAt('often', '2031-05-01T00:00:00Z')
    await startAt('also', '2031-05-01T00:00:00Z')
    const MINUTES = 120
    for (let minute = 0; minute < MINUTES; minute++) {
      const now = new Date(Date.UTC(2031, 4, 1, 0, minute, 1))
      await Promise.all(processes.map((db) => fireDue(db, quiet, { now })))
    }
    const [counts] = await database.sql(
      `select count(*)::integer as firings, count(distinct (schedule, tick_at))::integer as ticks,
              count(distinct job_id)::integer as with_job,
              (select count(*)::integer from sluice.jobs where parent_id is null) as jobs,
              (select count(*)::integer from sluice.jobs where task = 'report' and input = '{"from": "often"}') as often
         from sluice.firings`,
    )
    const all = MINUTES + MINUTES / 2
    expect(counts).toEqual({ firings: all, ticks: all, with_job: all, jobs: all, often: MINUTES })
    await cancelAll()
  })

  test('by the clock is prompt: the runner knows when the next tick is due', async () => {
    await app.createSchedule('second', { task: 'report', cron: '* * * * * *' })
    const runners = processes.slice(0, 3).map((db, n) => new DutyRunner(db, quiet, `runner ${n}`))
    for (const runner of runners) runner.start()
    const firings = await until(async () => {
      const found = await app.listFirings('second')
      return found.length >= 4 && found
    }, 'four ticks')
    await Promise.all(runners.map((runner) => runner.stop()))
    // The first may have been due before a runner looked; the others are known beforehand. A second is for a busy machine.
    for (const { firedAt, tickAt } of firings.slice(0, -1)) {
      expect(firedAt.getTime() - tickAt.getTime()).toBeGreaterThanOrEqual(0)
      expect(firedAt.getTime() - tickAt.getTime()).toBeLessThan(1000)
    }
    const seconds = firings.map(({ tickAt }) => tickAt.getTime() / 1000)
    expect(seconds).toEqual(seconds.map((_, index) => seconds[0]! - index))
    await cancelAll()
  })

  test('submits with the options of the schedule, in the name of its owner, and the job runs', async () => {
    const owned = await apps.open({ actor: 'ada', tasks: [report] })
    await owned.createSchedule('daily', {
      task: 'report',
      cron: '0 3 * * *',
      input: { n: 1 },
      key: 'daily-report',
      priority: 7,
      lane: 'maintenance',
      tags: ['night'],
      deadline: '1h',
    })
    await startAt('daily', '2031-05-01T03:00:00Z')
    expect(await fire('2031-05-01T03:00:01Z')).toEqual({ fired: 1, skipped: 0 })
    const [firing] = await app.listFirings('daily')
    expect(await app.getJob(firing!.jobId!)).toMatchObject({
      task: 'report',
      input: { n: 1 },
      key: 'daily-report',
      priority: 7,
      lane: 'maintenance',
      tags: ['night'],
      submittedBy: 'ada',
    })
    // The next tick finds the key held and attaches.
    expect(await fire('2031-05-02T03:00:01Z')).toEqual({ fired: 1, skipped: 0 })
    expect((await app.listFirings('daily'))[0]).toMatchObject({ attached: true, jobId: firing!.jobId })
    await app.work({ capacity: 2 })
    expect(await app.job(firing!.jobId!).result()).toEqual({ n: 1 })
  })

  test('follows the clocks of its time zone through the night they change', async () => {
    await app.createSchedule('berlin', { task: 'report', cron: '30 2 * * *', timezone: 'Europe/Berlin' })
    await startAt('berlin', '2027-03-27T01:30:00Z')
    for (const now of [
      '2027-03-27T01:30:00Z',
      '2027-03-28T00:59:59Z',
      '2027-03-28T01:00:00Z',
      '2027-03-29T00:30:00Z',
    ])
      await fire(now)
    await startAt('berlin', '2027-10-31T00:30:00Z')
    for (const now of ['2027-10-31T00:30:00Z', '2027-10-31T01:30:00Z', '2027-11-01T01:30:00Z'])
      await fire(now)
    expect(await ticksOf('berlin')).toEqual([
      '2027-03-27 01:30:00 job',
      '2027-03-28 01:00:00 job',
      '2027-03-29 00:30:00 job',
      '2027-10-31 00:30:00 job',
      '2027-11-01 01:30:00 job',
    ])
    await cancelAll()
  })

  test('that cannot be carried out is undone as a whole, tried again, and keeps no other from firing', async () => {
    await app.createSchedule('daily', { task: 'report', cron: '0 3 * * *', key: 'k' })
    await startAt('daily', '2031-05-01T03:00:00Z')
    await app.createSchedule('other', { task: 'report', cron: '0 3 * * *' })
    await startAt('other', '2031-05-01T03:00:00Z')
    // Somebody's open transaction holds the key: the firing gives up instead of waiting for it.
    const lines: string[] = []
    await processes[1]!.transaction(async (tx) => {
      await tx.run({ name: '', text: `select sluice.submit('report', 'null', key => 'k')` })
      const log = { ...quiet, warn: (_: object, message: string) => void lines.push(message) }
      expect(await fireDue(processes[0]!, log, { now: new Date('2031-05-01T03:00:01Z') })).toEqual({
        fired: 1,
        skipped: 0,
      })
    })
    expect(lines).toEqual(['could not fire a schedule; will try again'])
    expect(await ticksOf('daily')).toEqual([])
    expect(await fire('2031-05-01T03:00:05Z')).toEqual({ fired: 1, skipped: 0 })
    expect(await app.listFirings('daily')).toMatchObject([{ attached: true }])
    await cancelAll()
  })
})

describe('ticks that get no job', () => {
  test('fires the latest tick after an outage, and records the others together', async () => {
    await app.createSchedule('hourly', { task: 'report', cron: '0 * * * *' })
    await startAt('hourly', '2031-05-01T00:00:00Z')
    expect(await fire('2031-05-01T09:30:00Z')).toEqual({ fired: 1, skipped: 1 })
    expect(await ticksOf('hourly')).toEqual(['2031-05-01 08:00:00 missed 9', '2031-05-01 09:00:00 job'])
    const [, missed] = await app.listFirings('hourly')
    expect(missed).toMatchObject({ ticks: 9, since: new Date('2031-05-01T00:00:00Z'), jobId: null })
    expect((await app.getSchedule('hourly')).nextAt).toEqual(new Date('2031-05-01T10:00:00Z'))
    await cancelAll()
  })

  test('catchUp says how many are made up for, 0 none', async () => {
    await app.createSchedule('three', { task: 'report', cron: '0 * * * *', catchUp: 3 })
    await app.createSchedule('none', { task: 'report', cron: '0 * * * *', catchUp: 0 })
    await startAt('three', '2031-05-01T00:00:00Z')
    await startAt('none', '2031-05-01T00:00:00Z')
    await Promise.all(processes.map((db) => fire('2031-05-01T05:30:00Z', db)))
    expect(await ticksOf('three')).toEqual([
      '2031-05-01 02:00:00 missed 3',
      '2031-05-01 03:00:00 job',
      '2031-05-01 04:00:00 job',
      '2031-05-01 05:00:00 job',
    ])
    expect(await ticksOf('none')).toEqual(['2031-05-01 05:00:00 missed 6'])
    await cancelAll()
  })

  test('with overlap: skip there is no new job while an earlier one has not ended', async () => {
    await app.createSchedule('slow', { task: 'report', cron: '0 * * * *', overlap: 'skip' })
    await startAt('slow', '2031-05-01T00:00:00Z')
    await fire('2031-05-01T00:00:01Z')
    await fire('2031-05-01T01:00:01Z')
    const [skipped, first] = await app.listFirings('slow')
    expect(skipped).toMatchObject({
      skipped: 'overlap',
      reason: `job ${first!.jobId} of this schedule has not ended`,
    })
    await app.cancel(first!.jobId!)
    await fire('2031-05-01T02:00:01Z')
    expect(await ticksOf('slow')).toEqual([
      '2031-05-01 00:00:00 job',
      '2031-05-01 01:00:00 overlap',
      '2031-05-01 02:00:00 job',
    ])
    await cancelAll()
  })

  test('ticks that overlap are logged once when they begin, and with their number when they are over', async () => {
    const lines: unknown[] = []
    const log: Log = {
      ...quiet,
      info: (fields, message) => lines.push(['info', fields, message]),
      warn: (fields, message) => lines.push(['warn', fields, message]),
    }
    // One is fired in a batch; the other by itself, since ticks were missed before.
    await app.createSchedule('slow', { task: 'report', cron: '0 * * * *', overlap: 'skip' })
    await startAt('slow', '2031-05-01T00:00:00Z')
    for (const hour of ['00', '01', '02', '03']) {
      await fireDue(processes[0]!, log, { now: new Date(`2031-05-01T${hour}:00:01Z`) })
    }
    const [latest] = await app.listFirings('slow')
    expect(latest).toMatchObject({ skipped: 'overlap' })
    await cancelAll()
    await fireDue(processes[1]!, log, { now: new Date('2031-05-01T04:00:01Z') })
    expect(lines).toEqual([
      ['warn', expect.objectContaining({ skipped: 'overlap' }), 'a tick of a schedule created no job'],
      ['info', expect.objectContaining({ schedule: 'slow', ticks: 3 }), expect.stringContaining('has ended')],
    ])
    // The next episode is another one, also where ticks are fired one at a time.
    lines.length = 0
    await fireDue(processes[0]!, log, { now: new Date('2031-05-01T09:30:00Z') })
    await fireDue(processes[0]!, log, { now: new Date('2031-05-01T12:30:00Z') })
    expect(lines.filter((line) => JSON.stringify(line).includes('overlap'))).toHaveLength(1)
    await cancelAll()
  })

  test('at the ceiling a tick is recorded as skipped, and the next one is fired once there is room', async () => {
    await app.createSchedule('hourly', { task: 'report', cron: '0 * * * *' })
    await startAt('hourly', '2031-05-01T00:00:00Z')
    await database.sql(`select sluice.change_admission_v1('{"maxActive": 2}', 'test', true)`)
    try {
      for (const hour of ['00', '01', '02']) await fire(`2031-05-01T${hour}:00:01Z`)
      const [skipped, second] = await app.listFirings('hourly')
      expect(skipped).toMatchObject({ skipped: 'ceiling', jobId: null })
      expect(skipped!.reason).toContain('2 of at most 2 jobs are active')
      await app.cancel(second!.jobId!)
      await Promise.all(processes.map((db) => fire('2031-05-01T03:00:01Z', db)))
      expect(await ticksOf('hourly')).toEqual([
        '2031-05-01 00:00:00 job',
        '2031-05-01 01:00:00 job',
        '2031-05-01 02:00:00 ceiling',
        '2031-05-01 03:00:00 job',
      ])
    } finally {
      await database.sql(`select sluice.change_admission_v1('{"maxActive": null}', 'test', true)`)
    }
    await cancelAll()
  })

  test('of a disabled schedule go by in one record, and firing goes on with the next tick once it is enabled', async () => {
    await app.createSchedule('paused', { task: 'report', cron: '0 * * * *' })
    await startAt('paused', '2031-05-01T00:00:00Z')
    await fire('2031-05-01T00:00:01Z')
    await app.setSchedule('paused', { enabled: false })
    for (const hour of ['01', '02', '03']) await fire(`2031-05-01T${hour}:00:01Z`)
    await app.setSchedule('paused', { enabled: true })
    await fire('2031-05-01T03:30:00Z')
    await fire('2031-05-01T04:00:01Z')
    expect(await ticksOf('paused')).toEqual([
      '2031-05-01 00:00:00 job',
      '2031-05-01 03:00:00 disabled 3',
      '2031-05-01 04:00:00 job',
    ])
    await cancelAll()
  })

  test('a submission that is refused is recorded with the reason, and keeps no other schedule from firing', async () => {
    await app.createSchedule('a', { task: 'report', cron: '0 * * * *', lane: 'nowhere' })
    await app.createSchedule('b', { task: 'report', cron: '0 * * * *' })
    await startAt('a', '2031-05-01T00:00:00Z')
    await startAt('b', '2031-05-01T00:00:00Z')
    expect(await fire('2031-05-01T00:00:01Z')).toEqual({ fired: 1, skipped: 1 })
    expect(await app.listFirings('a')).toMatchObject([
      {
        skipped: 'refused',
        reason: expect.stringMatching(/^lane "nowhere" does not exist; existing lanes: /),
        jobId: null,
      },
    ])
    expect(await ticksOf('b')).toEqual(['2031-05-01 00:00:00 job'])
    await cancelAll()
  })

  test('old records are pruned, the latest of each schedule stays', async () => {
    await app.createSchedule('hourly', { task: 'report', cron: '0 * * * *' })
    await startAt('hourly', '2031-05-01T00:00:00Z')
    for (const hour of ['00', '01', '02']) await fire(`2031-05-01T${hour}:00:01Z`)
    await database.sql(`update sluice.firings set fired_at = now() - interval '8 days'`)
    await database.sql(`delete from sluice.duties where name = 'prune'`)
    const runner = new DutyRunner(processes[0]!, quiet, 'pruner')
    runner.start()
    await until(async () => (await ticksOf('hourly')).length === 1, 'the older firings to be gone')
    await runner.stop()
    expect(await ticksOf('hourly')).toEqual(['2031-05-01 02:00:00 job'])
    await cancelAll()
  })
})

describe('looking after schedules', () => {
  test('fire submits now, leaves the ticks alone, and is recorded with who asked', async () => {
    await app.createSchedule('monthly', { task: 'report', cron: '0 0 1 * *', input: 3, enabled: false })
    const { nextAt } = await app.getSchedule('monthly')
    const job = await app.fireSchedule('monthly')
    expect(await app.getJob(job.id)).toMatchObject({ task: 'report', input: 3 })
    expect(await app.listFirings('monthly')).toMatchObject([
      { jobId: job.id, skipped: null, askedBy: (await app.getSchedule('monthly')).owner },
    ])
    expect((await app.getSchedule('monthly')).nextAt).toEqual(nextAt)
    await cancelAll()
  })

  test('a change of cron counts from now on; of others the next tick stays', async () => {
    const created = await app.createSchedule('x', { task: 'report', cron: '0 0 1 1 *' })
    const later = await app.setSchedule('x', { priority: 5, tags: ['a'], input: { n: 2 } })
    expect(later).toMatchObject({ nextAt: created.nextAt, priority: 5, tags: ['a'], input: { n: 2 } })
    const sooner = await app.setSchedule('x', { cron: '0 * * * *', timezone: 'Asia/Kolkata', priority: null })
    expect(sooner.nextAt!.getTime()).toBeLessThanOrEqual(Date.now() + 3_600_000)
    expect(sooner.nextAt!.getUTCMinutes()).toBe(30)
    expect(sooner).toMatchObject({
      priority: null,
      operatorSet: ['cron', 'input', 'priority', 'tags', 'task', 'timezone'],
    })
    expect(await app.setSchedule('x', { workflow: 'chain' })).toMatchObject({ task: null, workflow: 'chain' })
    await app.removeSchedule('x')
    expect(await app.listSchedules()).toEqual([])
  })

  test.each([
    [{ task: 'nobody', cron: '@daily' }, 'TASK_NOT_FOUND', "no task named 'nobody'"],
    [{ task: 'repor', cron: '@daily' }, 'TASK_NOT_FOUND', 'did you mean report?'],
    [{ task: 'chain', cron: '@daily' }, 'TASK_NOT_FOUND', 'it is a workflow'],
    [{ task: 'report', workflow: 'chain', cron: '@daily' }, 'INVALID_ARGUMENT', 'has both task and workflow'],
    [{ task: 'report' }, 'INVALID_ARGUMENT', 'has no cron'],
    [{ task: 'report', cron: '0 25 * * *' }, 'INVALID_ARGUMENT', 'Invalid value for hour: 25'],
    [{ task: 'report', cron: '@daily', timezone: 'Mars' }, 'INVALID_ARGUMENT', 'the name of a time zone'],
    [{ task: 'report', cron: '@daily', prioritty: 1 }, 'INVALID_ARGUMENT', 'did you mean priority?'],
    [{ task: 'report', cron: '@daily', input: 'a\0' }, 'NOT_STORABLE', 'NUL'],
  ])('%j is refused', async (options, code, message) => {
    const refusal = await app.createSchedule('bad', options).catch((error) => error)
    expect(refusal).toMatchObject({ code })
    expect(refusal.message).toContain(message)
    expect(await app.listSchedules()).toEqual([])
  })

  test('what is not there, or is there already, is said', async () => {
    await app.createSchedule('nightly', { task: 'report', cron: '@daily' })
    await expect(app.createSchedule('nightly', { task: 'report', cron: '@daily' })).rejects.toMatchObject({
      code: 'SCHEDULE_EXISTS',
    })
    for (const act of [
      () => app.getSchedule('nightl'),
      () => app.setSchedule('nightl', { enabled: false }),
      () => app.fireSchedule('nightl'),
      () => app.removeSchedule('nightl'),
      () => app.listFirings('nightl'),
    ]) {
      const refusal = await act().catch((error) => error)
      expect(refusal).toMatchObject({ code: 'SCHEDULE_NOT_FOUND' })
      expect(refusal.message).toContain('did you mean nightly?')
    }
    await expect(app.resetSchedule('nightly')).rejects.toMatchObject({ code: 'ILLEGAL_TRANSITION' })
  })

  test('changes by many at once are all kept', async () => {
    await app.createSchedule('busy', { task: 'report', cron: '@daily' })
    const changes = [
      { priority: 1 },
      { tags: ['a'] },
      { catchUp: 9 },
      { overlap: 'skip' as const },
      { lane: 'system' },
    ]
    await Promise.all(changes.map((change) => app.setSchedule('busy', change)))
    expect(await app.getSchedule('busy')).toMatchObject({
      priority: 1,
      tags: ['a'],
      catchUp: 9,
      overlap: 'skip',
      lane: 'system',
    })
  })
})

describe('schedules of a config file', () => {
  const loaded = (schedules: unknown): LoadedConfig => ({
    file: undefined,
    folder: '.',
    config: checkConfig({ schedules }),
    tasks: [],
    workflows: [],
    locate: () => undefined,
  })

  test('are made known by each program that has it, follow the file, and keep what operators set', async () => {
    const config = loaded({
      nightly: { task: 'report', cron: '0 3 * * *', timezone: 'Europe/Berlin', catchUp: 2 },
    })
    const programs = await Promise.all(
      Array.from({ length: 5 }, () => apps.open({ tasks: [report], config, actor: 'deploy' })),
    )
    expect(await app.listSchedules()).toMatchObject([
      { name: 'nightly', task: 'report', catchUp: 2, declared: true, operatorSet: [], owner: 'deploy' },
    ])
    await programs[0]!.setSchedule('nightly', { cron: '0 4 * * *' })
    const next = loaded({ nightly: { workflow: 'chain', cron: '0 5 * * *', catchUp: 7 } })
    await apps.open({ tasks: [report], workflows: [chain], config: next })
    expect(await app.getSchedule('nightly')).toMatchObject({
      task: null,
      workflow: 'chain',
      cron: '0 4 * * *',
      timezone: 'UTC',
      catchUp: 7,
      operatorSet: ['cron'],
    })
    expect(await app.resetSchedule('nightly')).toMatchObject({ cron: '0 5 * * *', operatorSet: [] })
  })

  test('may also be given in code, and one that changes nothing writes nothing', async () => {
    const schedules = {
      cleanup: { task: 'report', cron: '@hourly', input: { b: 1, a: [1, { d: 1, c: 2 }] } },
    }
    await apps.open({ tasks: [report], schedules })
    const before = await database.sql('select xmin, version from sluice.schedules')
    await apps.open({ tasks: [report], schedules })
    expect(await database.sql('select xmin, version from sluice.schedules')).toEqual(before)
  })

  test('that run what nobody has made known yet are said in the log, and tell when they fire', async () => {
    await apps.open({ schedules: { early: { task: 'later', cron: '0 * * * *' } } })
    expect(apps.logged).toContainEqual({
      level: 'warn',
      fields: { schedule: 'early', task: 'later', workflow: undefined },
      message: 'a schedule runs a task or workflow that no program has registered',
    })
    await startAt('early', '2031-05-01T00:00:00Z')
    await fire('2031-05-01T00:00:01Z')
    expect((await app.getSchedule('early')).last).toMatchObject({
      skipped: 'refused',
      reason: "no task named 'later'",
    })
  })
})

async function cancelAll(): Promise<void> {
  await database.sql('delete from sluice.jobs where true')
}
