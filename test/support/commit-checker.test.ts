import pg from 'pg'
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { sluice, task } from '../../src/index.ts'
import { CommitChecker } from './commit-checker.ts'
import { parseChange } from './commit-stream.ts'
import { useDatabase } from './database.ts'
import { WatchedCommits } from './watched-commits.ts'

const database = useDatabase()

beforeAll(async () => {
  // What the schema itself refuses has to be let in, or it could not be reported.
  await database.sql('alter table sluice.job_keys drop constraint job_keys_pkey')
  // Without its primary key, the table says of a deleted row nothing else.
  await database.sql('alter table sluice.job_keys replica identity full')
})

let scenes = 0

/** Rows written by hand, as an engine with a bug would write them, and the checker's view of them. */
class Scene {
  readonly lane = `lane_${++scenes}`
  #watched!: WatchedCommits
  #classId = 0

  /** A lane with two slots, and a checker that makes no allowance for slow commits. */
  static async open(
    lane: { perWorker?: number; staleMs?: number; slots?: number | null } = {},
  ): Promise<Scene> {
    const scene = new Scene()
    await database.sql(
      'insert into sluice.lanes (name, slots, per_worker, stale_ms) values ($1, $2, $3, $4)',
      [scene.lane, lane.slots === undefined ? 2 : lane.slots, lane.perWorker ?? null, lane.staleMs ?? 60_000],
    )
    const [row] = await database.sql<{ id: number }>(
      `insert into sluice.classes (lane, task) values ($1, 'forged') returning id`,
      [scene.lane],
    )
    scene.#classId = row!.id
    scene.#watched = await WatchedCommits.open(database.directUrl, new CommitChecker({ visibleMs: 0 }))
    onTestFinished(() => scene.#watched.close())
    return scene
  }

  async worker(capacity: number, slots: number): Promise<string> {
    const [row] = await database.sql<{ id: string }>(
      `insert into sluice.workers (name, host, pid, version, capacity, cores, tasks)
       values ('forged', 'here', 1, '0', $1, 1, '{forged}') returning id`,
      [capacity],
    )
    await database.sql('insert into sluice.holdings (worker_id, lane, slots) values ($1, $2, $3)', [
      row!.id,
      this.lane,
      slots,
    ])
    return row!.id
  }

  async job(key: string | null = null): Promise<string> {
    const [row] = await database.sql<{ id: string }>(
      `insert into sluice.jobs (class_id, task, key) values ($1, 'forged', $2) returning id`,
      [this.#classId, key],
    )
    return row!.id
  }

  /** Several statements, one commit. */
  async commit(...statements: [text: string, ...values: unknown[]][]): Promise<void> {
    const client = new pg.Client(database.url)
    await client.connect()
    try {
      await client.query('begin')
      for (const [text, ...values] of statements) await client.query(text, values)
      await client.query('commit')
    } finally {
      await client.end()
    }
  }

  claim(job: string, worker: string): Promise<void> {
    return this.commit([CLAIM, job, worker])
  }

  complete(job: string): Promise<void> {
    return this.commit([COMPLETE, job])
  }

  async rules(): Promise<string[]> {
    const { violations } = await this.#watched.catchUp()
    return [...new Set(violations.map(({ rule }) => rule))]
  }
}

const CLAIM = `update sluice.jobs set state = 'running', worker_id = $2, attempt = attempt + 1, started_at = clock_timestamp()
                where id = $1`
const COPY_TO_RUNNING = `insert into sluice.running
    (id, worker_id, started_at, ready_at, parent_id, idx, class_id, attempt, failures, losses, keyed)
  select id, 1, now(), ready_at, parent_id, idx, class_id, attempt + 1, 0, 0, keyed from sluice.queue where id = $1`
const RETURN = `update sluice.jobs set state = 'ready', worker_id = null, finished_at = null where id = $1`
const COMPLETE = `update sluice.jobs set state = 'completed', finished_at = clock_timestamp() where id = $1`

describe('the checker finds nothing', () => {
  test('in the work of a real worker, with retries, keys, cancels, reruns and lane changes', async () => {
    const scene = await Scene.open()
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
    const scene = await Scene.open()
    const worker = await scene.worker(2, 2)
    const job = await scene.job('key')
    await scene.claim(job, worker)
    await scene.complete(job)
    await scene.job('key')
    expect(await scene.rules()).toEqual([])
  })

  test('in a job that comes back and is claimed again in one commit', async () => {
    const scene = await Scene.open()
    const worker = await scene.worker(2, 2)
    const job = await scene.job()
    await scene.claim(job, worker)
    await scene.commit([RETURN, job], [CLAIM, job, worker])
    expect(await scene.rules()).toEqual([])
  })

  test('in a lane that was shrunk below what runs, as long as nothing is claimed', async () => {
    const scene = await Scene.open()
    const worker = await scene.worker(0, 2)
    const [first, second] = [await scene.job(), await scene.job()]
    await scene.claim(first, worker)
    await scene.claim(second, worker)
    await scene.commit(['update sluice.lanes set slots = 0 where name = $1', scene.lane])
    await scene.complete(first)
    expect(await scene.rules()).toEqual([])
  })

  test('in a claim whose cycle began before the lane was shrunk and committed after it', async () => {
    const scene = await Scene.open()
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
    const scene = await Scene.open({ slots: 1 })
    const workers = [await scene.worker(0, 1), await scene.worker(0, 0)]
    for (const worker of workers) await scene.claim(await scene.job(), worker)
    expect(await scene.rules()).toContain('lane limit')
  })

  test('two holdings that grew at once, each legal alone', async () => {
    const scene = await Scene.open()
    await scene.worker(0, 2)
    expect(await scene.rules()).toEqual([])
    await scene.worker(0, 1)
    expect(await scene.rules()).toEqual(['slots held'])
  })

  test('a holding that grew in a lane that was shrunk', async () => {
    const scene = await Scene.open()
    await scene.worker(0, 1)
    await scene.commit(['update sluice.lanes set slots = 1 where name = $1', scene.lane])
    await scene.worker(0, 1)
    expect(await scene.rules()).toEqual(['slots held'])
  })

  test('a claim in a lane that was over its limit when the cycle began', async () => {
    const scene = await Scene.open()
    const worker = await scene.worker(0, 2)
    await scene.claim(await scene.job(), worker)
    await scene.commit(['update sluice.lanes set slots = 1 where name = $1', scene.lane])
    await scene.claim(await scene.job(), worker)
    expect(await scene.rules()).toEqual(['lane limit'])
  })

  test('a claim in a disabled lane', async () => {
    const scene = await Scene.open()
    const worker = await scene.worker(0, 2)
    await scene.commit(['update sluice.lanes set enabled = false where name = $1', scene.lane])
    await scene.claim(await scene.job(), worker)
    expect(await scene.rules()).toEqual(['lane disabled'])
  })

  test('a job that runs under no holding, and a holding that goes while jobs run under it', async () => {
    const scene = await Scene.open()
    const [worker, leaving] = [await scene.worker(0, 1), await scene.worker(0, 1)]
    await scene.claim(await scene.job(), leaving)
    expect(await scene.rules()).toEqual([])
    await scene.commit(['delete from sluice.holdings where worker_id = $1', leaving])
    expect(await scene.rules()).toContain('running under a holding')

    const other = await Scene.open({ slots: null })
    await other.claim(await other.job(), worker)
    expect(await other.rules()).toEqual(['running under a holding'])
  })

  test('a lane that got a limit while what runs in it was not counted', async () => {
    const scene = await Scene.open({ slots: null })
    const worker = await scene.worker(0, 0)
    await scene.claim(await scene.job(), worker)
    expect(await scene.rules()).toEqual([])
    await scene.commit(['update sluice.lanes set slots = 2 where name = $1', scene.lane])
    expect(await scene.rules()).toEqual(['running within slots'])
  })

  test('more running jobs than slots in a holding', async () => {
    const scene = await Scene.open()
    const worker = await scene.worker(0, 1)
    for (let n = 0; n < 2; n++) await scene.claim(await scene.job(), worker)
    expect(await scene.rules()).toEqual(['running within slots'])
  })

  test('two active jobs with one key', async () => {
    const scene = await Scene.open()
    await scene.job('key')
    await scene.job('key')
    expect(await scene.rules()).toEqual(['one job per key'])
  })

  test('more jobs on a worker than its capacity', async () => {
    const scene = await Scene.open()
    const worker = await scene.worker(1, 2)
    for (let n = 0; n < 2; n++) await scene.claim(await scene.job(), worker)
    expect(await scene.rules()).toEqual(['worker capacity'])
  })

  test('more jobs of a lane on a worker than the lane allows each, cores included', async () => {
    for (const perWorker of [1, 0, -1]) {
      const scene = await Scene.open({ perWorker })
      const worker = await scene.worker(0, 2)
      for (let n = 0; n < 2; n++) await scene.claim(await scene.job(), worker)
      expect(await scene.rules()).toEqual(['per worker'])
    }
  })

  test('a job claimed while it runs', async () => {
    const scene = await Scene.open()
    const [first, second] = [await scene.worker(0, 1), await scene.worker(0, 1)]
    const job = await scene.job()
    await scene.claim(job, first)
    await scene.commit([CLAIM, job, second])
    expect(await scene.rules()).toEqual(['one lease at a time'])
  })

  test('a job that changed hands without a new attempt', async () => {
    const scene = await Scene.open()
    const [first, second] = [await scene.worker(0, 1), await scene.worker(0, 1)]
    const job = await scene.job()
    await scene.claim(job, first)
    await scene.commit(['update sluice.jobs set worker_id = $2 where id = $1', job, second])
    expect(await scene.rules()).toEqual(['one lease at a time'])
  })

  test('a job taken from a worker that was not silent for long enough', async () => {
    const scene = await Scene.open()
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
    const scene = await Scene.open()
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
    const scene = await Scene.open()
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
    const scene = await Scene.open()
    const worker = await scene.worker(0, 1)
    const job = await scene.job()
    await scene.commit([CLAIM.replace('attempt + 1', `attempt + ${by}`), job, worker])
    expect(await scene.rules()).toEqual(['attempts count up'])
  })

  test('the result of an old attempt', async () => {
    const scene = await Scene.open()
    const worker = await scene.worker(0, 1)
    const job = await scene.job()
    await scene.claim(job, worker)
    await scene.commit([COMPLETE.replace('set', `set result = '{"attempt": 7}',`), job])
    expect(await scene.rules()).toEqual(['old lease'])
  })

  test('notes of an old attempt over those of a newer one', async () => {
    const scene = await Scene.open()
    const job = await scene.job()
    await scene.commit(['insert into sluice.notes (job_id, attempt) values ($1, 2)', job])
    await scene.commit(['update sluice.notes set attempt = 1 where job_id = $1', job])
    expect(await scene.rules()).toEqual(['old lease'])
  })

  test('more active root jobs than the ceiling, by a submission or a rerun, and not one that children or a lower ceiling make', async () => {
    const scene = await Scene.open()
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

    const other = await Scene.open()
    await other.job()
    expect(await other.rules()).toEqual(['ceiling'])
  })

  test('more scheduled root jobs than may be, and not that one is due above the ceiling', async () => {
    const scene = await Scene.open()
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
    const scene = await Scene.open()
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
    ['in two tables', COPY_TO_RUNNING],
    ['in none', 'delete from sluice.queue where id = $1'],
    [
      'in none, but for its outcome',
      'delete from sluice.job_data where id = $1',
      `insert into sluice.outcomes (id, state, ready_at) values ($1, 'completed', now())`,
    ],
  ])('a job %s', async (_, ...statements) => {
    const scene = await Scene.open()
    const job = await scene.job()
    await scene.commit(...statements.map((statement): [string, string] => [statement, job]))
    expect(await scene.rules()).toContain('one place')
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
    const scene = await Scene.open()
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
    const scene = await Scene.open()
    const job = await scene.job(`key of ${scene.lane}`)
    expect(await scene.rules()).toEqual([])
    await scene.commit(...statements.map((statement): [string, string] => [statement, job]))
    expect(await scene.rules()).toEqual(['keys agree'])
    await database.sql('delete from sluice.job_keys where key = any ($1)', [
      [`key of ${scene.lane}`, 'other'],
    ])
  })

  test('a key that an ended job holds', async () => {
    const scene = await Scene.open()
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
    const scene = await Scene.open()
    const job = await scene.job()
    await scene.commit([statement, job])
    expect(await scene.rules()).toEqual(['copies agree'])
  })

  test('an outcome that says the job is a child, and it is none', async () => {
    const scene = await Scene.open()
    const worker = await scene.worker(0, 1)
    const job = await scene.job()
    await scene.claim(job, worker)
    await scene.commit([COMPLETE, job], ['update sluice.outcomes set is_root = false where id = $1', job])
    expect(await scene.rules()).toEqual(['copies agree'])
  })

  test('a step no job may take, in a commit that hides it', async () => {
    const scene = await Scene.open()
    const job = await scene.job()
    await scene.commit([COMPLETE, job], [RETURN, job])
    expect(await scene.rules()).toEqual(['transition'])
  })

  test('steps no job may take', async () => {
    for (const statement of [COMPLETE, `delete from sluice.jobs where id = $1`]) {
      const scene = await Scene.open()
      await scene.commit([statement, await scene.job()])
      expect(await scene.rules()).toEqual(['transition'])
    }
  })
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
