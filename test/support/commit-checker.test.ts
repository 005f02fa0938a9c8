import pg from 'pg'
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { sluice, task } from '../../src/index.ts'
import { parseChange } from './commit-stream.ts'
import { useDatabase } from './database.ts'
import { CLAIM, COMPLETE, type LaneRow, Scene } from './forged-scene.ts'
import { JobRows } from './job-rows.ts'

const database = useDatabase()
const open = (lane?: LaneRow) => Scene.open(database, lane)

beforeAll(async () => {
  // What the schema itself refuses has to be let in, or it could not be reported.
  await database.sql('alter table sluice.job_keys drop constraint job_keys_pkey')
  // Without its primary key, the table says of a deleted row nothing else.
  await database.sql('alter table sluice.job_keys replica identity full')
})

const COPY_TO_CLAIM = `insert into sluice.claims (worker_id, seq, class_id, started_at, ids, ready_ats)
  select 1, id, class_id, now(), array[id], array[ready_at] from sluice.jobs where id = $1`
const RETURN = `update sluice.jobs set state = 'ready', worker_id = null, finished_at = null where id = $1`

describe('the checker finds nothing', () => {
  test('in the work of a real worker, with retries, keys, cancels, reruns and lane changes', async () => {
    const scene = await open()
    const flaky = task({
      name: 'flaky',
      lane: scene.lane,
      retry: { attempts: 3, delay: 1 },
      run: (input: { fail: boolean }, ctx) => {
        ctx.progress(0.5)
        if (input.fail && ctx.attempt === 1) throw new Error('once more')
        return { attempt: ctx.attempt }
      },
    })
    const app = await sluice({
      database: database.url,
      tasks: [flaky],
      lanes: { [scene.lane]: { poll: 50 } },
    })
    try {
      await app.work({ capacity: 4 })
      const inputs = Array.from({ length: 60 }, (_, i) => ({ fail: i % 3 === 0 }))
      const jobs = await app.submitMany(flaky, inputs)
      const keyed = await app.submit(flaky, { fail: false }, { key: 'k' })
      await app.setLane(scene.lane, { slots: 1 })
      const later = await app.submit(flaky, { fail: false }, { runAt: '1h' })
      await app.cancel(later.id)
      await app.setLane(scene.lane, { slots: 0 })
      const cancelled = await app.submit(flaky, { fail: false })
      await app.cancel(cancelled.id)
      await app.setLane(scene.lane, { slots: 3 })
      await Promise.all([...jobs, keyed].map((job) => job.result()))
      await app.rerun(keyed.id)
      await keyed.result()
      await app.rerun(cancelled.id)
      expect(await cancelled.result()).toEqual({ attempt: 1 })
      // It keeps its time, so it is cancelled again: what waits would count in the tests that follow.
      await app.rerun(later.id)
      expect(await app.getJob(later.id)).toMatchObject({ state: 'scheduled' })
      await app.cancel(later.id)
    } finally {
      await app.close()
    }
    expect(await scene.rules()).toEqual([])
  })

  test('in a claim and an ending written by hand, so what follows is the forgery alone', async () => {
    const scene = await open()
    const worker = await scene.worker(2, 2)
    const job = await scene.job('key')
    await scene.claim(job, worker)
    await scene.complete(job)
    await scene.job('key')
    expect(await scene.rules()).toEqual([])
  })

  test('in a job that comes back and is claimed again in one commit', async () => {
    const scene = await open()
    const worker = await scene.worker(2, 2)
    const job = await scene.job()
    await scene.claim(job, worker)
    await scene.commit([RETURN, job], [CLAIM, job, worker])
    expect(await scene.rules()).toEqual([])
  })

  test('in jobs that leave their claim one by one, and in one whose claim is asked to stop it', async () => {
    const scene = await open({ slots: 4 })
    const [first, second, third] = await scene.together(await scene.worker(4, 4), 4)
    await scene.complete(second!)
    await scene.commit([`select sluice.stop_running_v1(array[$1::bigint], 'enough')`, third])
    await scene.commit([RETURN, first])
    await scene.complete(third!)
    expect(await scene.rules()).toEqual([])
  })

  test('in a lane that was shrunk below what runs, as long as nothing is claimed', async () => {
    const scene = await open()
    const worker = await scene.worker(0, 2)
    const [first, second] = [await scene.job(), await scene.job()]
    await scene.claim(first, worker)
    await scene.claim(second, worker)
    await scene.commit(['update sluice.lanes set slots = 0 where name = $1', scene.lane])
    await scene.complete(first)
    expect(await scene.rules()).toEqual([])
  })

  test('in a claim whose cycle began before the lane was shrunk and committed after it', async () => {
    const scene = await open()
    const worker = await scene.worker(0, 2)
    const job = await scene.job()
    const cycle = new pg.Client(database.url)
    await cycle.connect()
    await cycle.query('begin')
    await cycle.query(CLAIM, [job, worker])
    await scene.commit(['update sluice.lanes set slots = 0, enabled = false where name = $1', scene.lane])
    await cycle.query('commit')
    await cycle.end()
    expect(await scene.rules()).toEqual([])
  })
})

describe('the checker reports', () => {
  test('more running jobs in a lane than it has slots', async () => {
    const scene = await open({ slots: 1 })
    const workers = [await scene.worker(0, 1), await scene.worker(0, 0)]
    for (const worker of workers) await scene.claim(await scene.job(), worker)
    expect(await scene.rules()).toContain('lane limit')
  })

  test('two holdings that grew at once, each legal alone', async () => {
    const scene = await open()
    await scene.worker(0, 2)
    expect(await scene.rules()).toEqual([])
    await scene.worker(0, 1)
    expect(await scene.rules()).toEqual(['slots held'])
  })

  test('a holding that grew in a lane that was shrunk', async () => {
    const scene = await open()
    await scene.worker(0, 1)
    await scene.commit(['update sluice.lanes set slots = 1 where name = $1', scene.lane])
    await scene.worker(0, 1)
    expect(await scene.rules()).toEqual(['slots held'])
  })

  test('a claim in a lane that was over its limit when the cycle began', async () => {
    const scene = await open()
    const worker = await scene.worker(0, 2)
    await scene.claim(await scene.job(), worker)
    await scene.commit(['update sluice.lanes set slots = 1 where name = $1', scene.lane])
    await scene.claim(await scene.job(), worker)
    expect(await scene.rules()).toEqual(['lane limit'])
  })

  test('a claim in a disabled lane', async () => {
    const scene = await open()
    const worker = await scene.worker(0, 2)
    await scene.commit(['update sluice.lanes set enabled = false where name = $1', scene.lane])
    await scene.claim(await scene.job(), worker)
    expect(await scene.rules()).toEqual(['lane disabled'])
  })

  test('a job that runs under no holding, and a holding that goes while jobs run under it', async () => {
    const scene = await open()
    const [worker, leaving] = [await scene.worker(0, 1), await scene.worker(0, 1)]
    await scene.claim(await scene.job(), leaving)
    expect(await scene.rules()).toEqual([])
    await scene.commit(['delete from sluice.holdings where worker_id = $1', leaving])
    expect(await scene.rules()).toContain('running under a holding')

    const other = await open({ slots: null })
    await other.claim(await other.job(), worker)
    expect(await other.rules()).toEqual(['running under a holding'])
  })

  test('a lane that got a limit while what runs in it was not counted', async () => {
    const scene = await open({ slots: null })
    const worker = await scene.worker(0, 0)
    await scene.claim(await scene.job(), worker)
    expect(await scene.rules()).toEqual([])
    await scene.commit(['update sluice.lanes set slots = 2 where name = $1', scene.lane])
    expect(await scene.rules()).toEqual(['running within slots'])
  })

  test('more running jobs than slots in a holding', async () => {
    const scene = await open()
    const worker = await scene.worker(0, 1)
    for (let n = 0; n < 2; n++) await scene.claim(await scene.job(), worker)
    expect(await scene.rules()).toEqual(['running within slots'])
  })

  test('two active jobs with one key', async () => {
    const scene = await open()
    await scene.job('key')
    await scene.job('key')
    expect(await scene.rules()).toEqual(['one job per key'])
  })

  test('more jobs on a worker than its capacity', async () => {
    const scene = await open()
    const worker = await scene.worker(1, 2)
    for (let n = 0; n < 2; n++) await scene.claim(await scene.job(), worker)
    expect(await scene.rules()).toEqual(['worker capacity'])
  })

  test('more jobs of a lane on a worker than the lane allows each, cores included', async () => {
    for (const perWorker of [1, 0, -1]) {
      const scene = await open({ perWorker })
      const worker = await scene.worker(0, 2)
      for (let n = 0; n < 2; n++) await scene.claim(await scene.job(), worker)
      expect(await scene.rules()).toEqual(['per worker'])
    }
  })

  test('a job claimed while it runs', async () => {
    const scene = await open()
    const [first, second] = [await scene.worker(0, 1), await scene.worker(0, 1)]
    const job = await scene.job()
    await scene.claim(job, first)
    await scene.commit([CLAIM, job, second])
    expect(await scene.rules()).toEqual(['one lease at a time'])
  })

  test('a job that changed hands without a new attempt', async () => {
    const scene = await open()
    const [first, second] = [await scene.worker(0, 1), await scene.worker(0, 1)]
    const job = await scene.job()
    await scene.claim(job, first)
    await scene.commit(['update sluice.jobs set worker_id = $2 where id = $1', job, second])
    expect(await scene.rules()).toEqual(['one lease at a time'])
  })

  test('a job taken from a worker that was not silent for long enough', async () => {
    const scene = await open()
    const worker = await scene.worker(0, 1)
    const job = await scene.job()
    await scene.claim(job, worker)
    await scene.commit(
      [`update sluice.jobs set state = 'ready', worker_id = null, losses = 1 where id = $1`, job],
      ['delete from sluice.holdings where worker_id = $1', worker],
    )
    expect(await scene.rules()).toEqual(['lease expired'])
  })

  test.each([
    ['another one', `update sluice.jobs set state = 'failed', error = 'late' where id = $1`],
    ['the same once more', 'update sluice.jobs set finished_at = clock_timestamp() where id = $1'],
    ['running again', `update sluice.jobs set state = 'running', finished_at = null where id = $1`],
    ['waiting again', `update sluice.jobs set state = 'ready', finished_at = null where id = $1`],
    ['another result', `update sluice.outcomes set result = '1' where id = $1`],
    [
      'an equal one in its place',
      `with gone as (delete from sluice.outcomes where id = $1 returning *) insert into planted_outcomes select * from gone`,
      'insert into sluice.outcomes select * from planted_outcomes where id = $1',
    ],
  ])('a second outcome of a job: %s', async (_, ...statements) => {
    const scene = await open()
    const worker = await scene.worker(0, 1)
    const job = await scene.job()
    await scene.claim(job, worker)
    await scene.complete(job)
    expect(await scene.rules()).toEqual([])
    await database.sql('create table if not exists planted_outcomes (like sluice.outcomes)')
    await scene.commit(...statements.map((statement): [string, string] => [statement, job]))
    expect(await scene.rules()).toContain('one outcome')
  })

  test('a late return that revives a job, though it left a trace in the history', async () => {
    const scene = await open()
    const worker = await scene.worker(0, 1)
    const job = await scene.job()
    await scene.claim(job, worker)
    await scene.complete(job)
    await scene.commit(
      [`update sluice.jobs set state = 'ready', finished_at = null where id = $1`, job],
      [`insert into sluice.attempts (job_id, attempt, ending) values ($1, 1, 'returned')`, job],
    )
    expect(await scene.rules()).toEqual(['one outcome'])
  })

  test.each([0, 2])('a claim that moves the attempt by %i', async (by) => {
    const scene = await open()
    const worker = await scene.worker(0, 1)
    const job = await scene.job()
    await scene.commit([CLAIM.replace('attempt + 1', `attempt + ${by}`), job, worker])
    expect(await scene.rules()).toEqual(['attempts count up'])
  })

  test('the result of an old attempt', async () => {
    const scene = await open()
    const worker = await scene.worker(0, 1)
    const job = await scene.job()
    await scene.claim(job, worker)
    await scene.commit([COMPLETE.replace('set', `set result = '{"attempt": 7}',`), job])
    expect(await scene.rules()).toEqual(['old lease'])
  })

  test('notes of an old attempt over those of a newer one', async () => {
    const scene = await open()
    const job = await scene.job()
    await scene.commit(['insert into sluice.notes (job_id, attempt) values ($1, 2)', job])
    await scene.commit(['update sluice.notes set attempt = 1 where job_id = $1', job])
    expect(await scene.rules()).toEqual(['old lease'])
  })

  test('more active root jobs than the ceiling, by a submission or a rerun, and not one that children or a lower ceiling make', async () => {
    const scene = await open()
    const set = (most: number | null) => scene.commit(['update sluice.admission set max_active = $1', most])
    onTestFinished(() => set(null))
    const [{ n: present }] = (await database.sql<{ n: number }>(
      `select count(*)::integer as n from sluice.jobs where parent_id is null and state < 'completed'`,
    )) as [{ n: number }]
    const [first, second] = [await scene.job(), await scene.job()]
    await set(present + 1)
    await scene.commit([
      `insert into sluice.jobs (class_id, task, parent_id, root_id, idx) select class_id, task, id, id, 0 from sluice.jobs where id = $1`,
      first,
    ])
    expect(await scene.rules()).toEqual([])
    await scene.commit([
      `update sluice.jobs set state = 'cancelled', finished_at = now(), error = 'cancelled: x' where id = $1`,
      second,
    ])
    await scene.commit([
      `update sluice.jobs set state = 'ready', finished_at = null, error = null where id = $1`,
      second,
    ])
    expect(await scene.rules()).toEqual(['ceiling'])

    const other = await open()
    await other.job()
    expect(await other.rules()).toEqual(['ceiling'])
  })

  test('more scheduled root jobs than may be, and not that one is due above the ceiling', async () => {
    const scene = await open()
    const set = (active: number | null, scheduled: number | null) =>
      scene.commit(['update sluice.admission set max_active = $1, max_scheduled = $2', active, scheduled])
    onTestFinished(() => set(null, null))
    const schedule = async () => {
      const [row] = await database.sql<{ id: string }>(
        `insert into sluice.jobs (class_id, task, state, ready_at) select class_id, task, 'scheduled', now() + interval '1 day'
           from sluice.jobs where class_id is not null limit 1 returning id`,
      )
      return row!.id
    }
    await scene.job()
    await set(1, 1)
    const first = await schedule()
    await scene.commit([`update sluice.jobs set state = 'ready' where id = $1`, first])
    await schedule()
    expect(await scene.rules()).toEqual([])
    await schedule()
    expect(await scene.rules()).toEqual(['scheduled'])
    await scene.job()
    expect(await scene.rules()).toEqual(['scheduled', 'ceiling'])
  })

  test('more waiting jobs of a task than may wait', async () => {
    const scene = await open()
    const set = (most: object) => scene.commit(['update sluice.admission set max_queued = $1', most])
    onTestFinished(() => set({}))
    const [{ n: present }] = (await database.sql<{ n: number }>(
      `select count(*)::integer as n from sluice.jobs where parent_id is null and task = 'forged' and state < 'running'`,
    )) as [{ n: number }]
    await set({ forged: present + 1 })
    await scene.job()
    expect(await scene.rules()).toEqual([])
    await scene.job()
    expect(await scene.rules()).toEqual(['depth'])
  })

  test.each([
    ['in two tables', COPY_TO_CLAIM],
    ['in none', 'delete from sluice.queue where id = $1'],
    [
      'in none, but for its outcome',
      'delete from sluice.job_data where id = $1',
      `insert into sluice.outcomes (id, state, ready_at) values ($1, 'completed', now())`,
    ],
  ])('a job %s', async (_, ...statements) => {
    const scene = await open()
    const job = await scene.job()
    await scene.commit(...statements.map((statement): [string, string] => [statement, job]))
    expect(await scene.rules()).toContain('one place')
  })

  test.each([
    ['is in two', COPY_TO_CLAIM],
    [
      'is in one twice',
      'update sluice.claims set ids = ids || $1::bigint, ready_ats = ready_ats || now() where $1 = any (ids)',
    ],
    [
      'left without any other place',
      'update sluice.claims set ids = array_remove(ids, $1), ready_ats = ready_ats[2:] where $1 = any (ids)',
    ],
    ['lost', 'delete from sluice.claims where $1 = any (ids)'],
    [
      'was put off for another',
      'update sluice.claims set ids = array_replace(ids, $1, $1 + 1000000) where $1 = any (ids)',
    ],
  ])('claims of which a job %s', async (_, statement) => {
    const scene = await open()
    const [first, second] = await scene.together(await scene.worker(0, 2), 2)
    expect(await scene.rules()).toEqual([])
    await scene.commit([statement, first])
    expect(await scene.rules()).toContain('one place')
    await database.sql('delete from sluice.claims where ids && $1::bigint[]', [[first, second]])
  })

  test.each([
    [
      'whose row in the queue outlives its start',
      'update sluice.composites set started_at = now() where job_id = $1',
    ],
    ['that left the queue and never started', 'delete from sluice.queue where id = $1'],
    ['that ended without an outcome', 'update sluice.composites set ended = true where job_id = $1'],
    [
      'that waits and has ended',
      `insert into sluice.outcomes (id, state, ready_at) values ($1, 'completed', now())`,
    ],
  ])('a composite %s', async (_, statement) => {
    const scene = await open()
    const [row] = await database.sql<{ id: string }>(
      `insert into sluice.jobs (task, composite, state) values ('forged', 'group', 'scheduled') returning id`,
    )
    await scene.commit(
      [`insert into sluice.graphs (hash, body) values ('forged', '{}') on conflict do nothing`],
      [`insert into sluice.composites (job_id, graph, node) values ($1, 'forged', 'forged')`, row!.id],
    )
    expect(await scene.rules()).toEqual([])
    await scene.commit([statement, row!.id])
    expect(await scene.rules()).toContain('one place')
    await database.sql('delete from sluice.jobs where id = $1', [row!.id])
  })

  test.each([
    ['is missing', 'delete from sluice.job_keys where job_id = $1'],
    ['is another', `update sluice.job_keys set key = 'other' where job_id = $1`],
    ['is of another job', 'update sluice.job_keys set job_id = job_id + 1000 where job_id = $1'],
    ['is not told by its row in the queue', 'update sluice.queue set keyed = false where id = $1'],
    [
      'outlives it',
      'update sluice.queue set keyed = false where id = $1',
      'update sluice.job_data set key = null where id = $1',
    ],
  ])('a job whose row among the keys %s', async (_, ...statements) => {
    const scene = await open()
    const job = await scene.job(`key of ${scene.lane}`)
    expect(await scene.rules()).toEqual([])
    await scene.commit(...statements.map((statement): [string, string] => [statement, job]))
    expect(await scene.rules()).toEqual(['keys agree'])
    await database.sql('delete from sluice.job_keys where key = any ($1)', [
      [`key of ${scene.lane}`, 'other'],
    ])
  })

  test('a key that an ended job holds', async () => {
    const scene = await open()
    const worker = await scene.worker(0, 1)
    const job = await scene.job('held')
    await scene.claim(job, worker)
    const hold = `insert into sluice.job_keys (task, key, job_id) values ('forged', 'held', $1)`
    await scene.commit([COMPLETE, job], [hold, job])
    expect(await scene.rules()).toEqual(['keys agree'])
    await database.sql(`delete from sluice.job_keys where key = 'held'`)
  })

  test.each([
    ['class', 'update sluice.queue set class_id = class_id + 1000 where id = $1'],
    ['place', 'update sluice.queue set idx = 3 where id = $1'],
    ['parent', 'update sluice.queue set parent_id = 1 where id = $1'],
  ])('a row in the queue with another %s than its job', async (_, statement) => {
    const scene = await open()
    const job = await scene.job()
    await scene.commit([statement, job])
    expect(await scene.rules()).toEqual(['copies agree'])
  })

  test.each([
    ['another place than its job', 'idxs = array[3, null]'],
    ['another parent than its job', 'parents = array[1, null]'],
    ['fewer attempts than jobs', 'attempts = array[1]'],
    ['more deadlines than jobs', 'deadlines = array[now(), now(), now()]'],
    [
      'a request to stop a job that it does not list',
      `cancels = '{"1": {"at": "2026-01-01", "error": "x"}}'`,
    ],
  ])('a claim with %s', async (_, change) => {
    const scene = await open()
    const [job] = await scene.together(await scene.worker(0, 2), 2)
    await scene.commit([`update sluice.claims set ${change} where $1 = any (ids)`, job])
    expect(await scene.rules()).toEqual(['copies agree'])
  })

  test('a claim that does not know of the key of its job, or of one that the job does not have', async () => {
    const scene = await open()
    const worker = await scene.worker(0, 2)
    for (const [key, keyed] of [
      ['known', null],
      [null, [true]],
    ] as const) {
      const job = await scene.job(key)
      await scene.claim(job, worker)
      await scene.commit(['update sluice.claims set keyed = $2 where $1 = any (ids)', job, keyed])
      expect(await scene.rules()).toEqual(['keys agree'])
    }
  })

  test('an outcome that says the job is a child, and it is none', async () => {
    const scene = await open()
    const worker = await scene.worker(0, 1)
    const job = await scene.job()
    await scene.claim(job, worker)
    await scene.commit([COMPLETE, job], ['update sluice.outcomes set is_root = false where id = $1', job])
    expect(await scene.rules()).toEqual(['copies agree'])
  })

  test('a step no job may take, in a commit that hides it', async () => {
    const scene = await open()
    const job = await scene.job()
    await scene.commit([COMPLETE, job], [RETURN, job])
    expect(await scene.rules()).toEqual(['transition'])
  })

  test('steps no job may take', async () => {
    for (const statement of [COMPLETE, `delete from sluice.jobs where id = $1`]) {
      const scene = await open()
      await scene.commit([statement, await scene.job()])
      expect(await scene.rules()).toEqual(['transition'])
    }
  })
})

test('what an update of a claim leaves out, and what a deleted one listed, is remembered', () => {
  const found: string[] = []
  const rows = new JobRows((rule, what) => found.push(`${rule}: ${what}`))
  const data = { parent_id: '1', root_id: '1', idx: '0', class_id: '2', task: 'a', key: null }
  const claim = { worker_id: '7', seq: '1', class_id: '2', started_at: 'then', ids: '{5,6}' }
  const shown = rows.apply([
    ...['5', '6'].map((id) => ({
      ...{ table: 'sluice.job_data', kind: 'INSERT' as const, row: { id, ...data, idx: id } },
    })),
    {
      ...{ table: 'sluice.claims', kind: 'INSERT' },
      row: { ...claim, ready_ats: '{x,y}', parents: '{1,1}', idxs: '{5,6}', errors: '{NULL,"it, \\"\\\\"}' },
    },
  ])
  expect(shown.map(({ row }) => [row.id, row.state, row.error])).toEqual([
    ['5', 'running', null],
    ['6', 'running', 'it, "\\'],
  ])
  const stop = { ...claim, cancels: '{"5": {"at": "now", "error": "stop"}}' }
  expect(rows.apply([{ table: 'sluice.claims', kind: 'UPDATE', row: stop }])).toMatchObject([
    { kind: 'UPDATE', row: { id: '5', error: 'stop', ready_at: 'x' } },
  ])
  expect(found).toEqual([])
  rows.apply([{ table: 'sluice.claims', kind: 'DELETE', row: { worker_id: '7', seq: '1' } }])
  expect(found).toEqual(
    ['5', '6'].map((id) => `one place: job ${id} is in none of queue, claims and outcomes`),
  )
})

test('a line of the decoder is read whatever its values contain', () => {
  const line = `table sluice.outcomes: UPDATE: id[bigint]:7 started_at[timestamp with time zone]:'2026-01-02 03:04:05+00' key[text]:'it''s [a]:''b'' c[d]:e' tags[text[]]:'{x,y}' result[jsonb]:null input[jsonb]:unchanged-toast-datum task[text]:''`
  expect(parseChange(line, new Set(['sluice.outcomes']))).toEqual({
    table: 'sluice.outcomes',
    kind: 'UPDATE',
    row: {
      id: '7',
      started_at: '2026-01-02 03:04:05+00',
      key: `it's [a]:'b' c[d]:e`,
      tags: '{x,y}',
      result: null,
      task: '',
    },
  })
  expect(parseChange(line, new Set(['sluice.lanes']))).toBeUndefined()
  const moved = `table sluice.job_keys: UPDATE: old-key: task[text]:'a' key[text]:' new-tuple: ' new-tuple: task[text]:'a' key[text]:'c' job_id[bigint]:5`
  expect(parseChange(moved, new Set(['sluice.job_keys']))).toEqual({
    table: 'sluice.job_keys',
    kind: 'UPDATE',
    row: { task: 'a', key: 'c', job_id: '5' },
    old: { task: 'a', key: ' new-tuple: ' },
  })
})
