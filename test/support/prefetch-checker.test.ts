import { beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { useDatabase } from './database.ts'
import { type LaneRow, Scene } from './forged-scene.ts'

const database = useDatabase()
const open = (lane?: LaneRow) => Scene.open(database, lane)

beforeAll(async () => {
  // What the schema itself refuses has to be let in, or it could not be reported.
  await database.sql('alter table sluice.claims drop constraint claim_has_its_assigned')
})

const START =
  'update sluice.claims set assigned = nullif(array_remove(assigned, $1), array[]::bigint[]) where $1 = any (assigned)'
const HAND_BACK = `select sluice.end_attempts_v1(c.worker_id, jsonb_build_array(jsonb_build_object('id', $1::bigint, 'seq', c.seq, 'ending', 'unstarted')))
                     from sluice.claims c where $1 = any (c.ids)`
const COMPLETE = `select sluice.finish_v1(c.worker_id, clock_timestamp(), array[c.seq], array[$1::bigint], null, null)
                    from sluice.claims c where $1 = any (c.ids)`
/** It says that it starts so much later, by the clock of the database. */
const completeLater = (ms: number) => COMPLETE.replace('null, null)', `null, array[-${ms}])`)
const LEAVE = 'delete from sluice.holdings where worker_id = $1'
const PAUSE = 'update sluice.lanes set enabled = false where name = $1'
/** Longer than an assigned job may take to start and to be reported, with the poll that lanes have by default. */
const TOO_LONG_MS = 10_000
/** A worker is silent for longer than the `stale` of a scene. */
const SILENT_MS = 70_000

/** The job of a claim goes back to the queue as its worker is lost. */
const lose = (losses: number, certain: boolean) =>
  `with gone as (delete from sluice.claims where $1 = any (ids) returning class_id)
   insert into sluice.queue (id, class_id, attempt, losses, certain) select $1, class_id, 1, ${losses}, ${certain} from gone`

/** A worker with two slots in which jobs run, and one that it is assigned. */
async function assignedJob(lane?: LaneRow) {
  const scene = await open(lane)
  const worker = await scene.worker(0, 2)
  const [running, assigned] = await scene.together(worker, 2, 1)
  return { scene, worker, running: running!, assigned: assigned! }
}

describe('the checker finds nothing', () => {
  test('in jobs that are assigned, start, end, go back and are assigned again', async () => {
    const { scene, worker, running, assigned } = await assignedJob()
    await scene.commit([COMPLETE, running], [START, assigned])
    await scene.commit([COMPLETE, assigned])
    const [first, second] = await scene.together(worker, 2, 0)
    await scene.commit([COMPLETE, first])
    await scene.commit([HAND_BACK, second])
    await scene.give(worker, [second!], 0)
    await scene.commit([START, second])
    expect(await scene.rules()).toEqual([])
  })

  test('in an assigned job that starts right after its lane was paused and its limit lowered', async () => {
    const { scene, running, assigned } = await assignedJob()
    await scene.commit([PAUSE, scene.lane], ['update sluice.lanes set slots = 0 where name = $1', scene.lane])
    await scene.commit([COMPLETE, running], [START, assigned])
    expect(await scene.rules()).toEqual([])
  })

  test('in an assigned job that its lost worker did not start, and that starts at once the next time', async () => {
    const { scene, worker, assigned } = await assignedJob({ slots: 4 })
    await scene.pass(SILENT_MS)
    await scene.commit([COMPLETE, assigned])
    const [lost] = await scene.together(worker, 1, 0)
    await scene.commit([lose(0, true), lost])
    await scene.give(await scene.worker(0, 2), [lost!], 1)
    expect(await scene.rules()).toEqual([])
  })

  test.each([
    ['silent', `seen_at = clock_timestamp() - interval '50 s'`],
    ['blocked', `blocked_since = now()`],
  ])('in a start that a worker reports late because it was %s', async (_, change) => {
    const { scene, worker, assigned } = await assignedJob()
    await scene.commit([`update sluice.workers set ${change} where id = $1`, worker])
    await scene.pass(TOO_LONG_MS)
    await scene.commit([START, assigned])
    expect(await scene.rules()).toEqual([])
  })
})

describe('the checker reports', () => {
  test('a loss that is counted for a job that was only assigned', async () => {
    const { scene, worker, assigned } = await assignedJob({ slots: 4 })
    await scene.pass(SILENT_MS)
    await scene.commit([COMPLETE, assigned])
    const [lost] = await scene.together(worker, 1, 0)
    await scene.commit([lose(1, true), lost])
    expect(await scene.rules()).toEqual(['transition'])
  })

  test('an assigned job that comes back without its worker, and may be assigned the next time', async () => {
    const { scene, worker, running, assigned } = await assignedJob()
    await scene.commit([COMPLETE, running], [COMPLETE, assigned])
    const [lost] = await scene.together(worker, 1, 0)
    await scene.commit([lose(0, false), lost], [LEAVE, worker])
    expect(await scene.rules()).toEqual(['prefetch'])
  })

  test('an assigned job that is taken from a worker that is not silent', async () => {
    const { scene, worker } = await assignedJob({ slots: 4 })
    const [lost] = await scene.together(worker, 1, 0)
    await scene.commit([lose(0, true), lost])
    expect(await scene.rules()).toEqual(['lease expired'])
  })

  test('an assigned job that starts long after it should have gone back', async () => {
    const { scene, assigned } = await assignedJob()
    await scene.pass(TOO_LONG_MS)
    await scene.commit([START, assigned])
    expect(await scene.rules()).toEqual(['started late'])
  })

  test('an assigned job that starts long after its lane was paused, also where its start is reported with its ending', async () => {
    for (const start of [START, completeLater(TOO_LONG_MS)]) {
      const { scene, assigned } = await assignedJob()
      await scene.commit([PAUSE, scene.lane])
      await scene.pass(TOO_LONG_MS)
      // The job says that it started just now, by the clock of the checker, which is ahead of the database's.
      await scene.commit([start, assigned])
      const wrong = start === START ? ['lane disabled', 'started late'] : ['started late']
      expect((await scene.rules()).sort()).toEqual(wrong)
    }
  })

  test('an assigned job that starts above a limit that was lowered long ago', async () => {
    const { scene, assigned } = await assignedJob()
    await scene.commit(['update sluice.lanes set slots = 1 where name = $1', scene.lane])
    await scene.pass(TOO_LONG_MS)
    await scene.commit([START, assigned])
    expect((await scene.rules()).sort()).toEqual(['lane limit', 'started late'])
  })

  test('an assigned job that starts after its start deadline', async () => {
    const { scene, worker } = await assignedJob({ slots: 4 })
    const [late] = [await scene.job()]
    await scene.commit([
      `update sluice.queue set deadline_at = clock_timestamp() + interval '3 s' where id = $1`,
      late,
    ])
    await scene.give(worker, [late!], 0)
    expect(await scene.rules()).toEqual([])
    await scene.pass(TOO_LONG_MS)
    await scene.commit([START, late])
    expect((await scene.rules()).sort()).toEqual(['start deadline', 'started late'])
  })

  test.each([
    ['whose start was not reported before', false, ''],
    ['whose start was reported before', true, ''],
    ['of a worker that was silent', false, `seen_at = clock_timestamp() - interval '50 s'`],
    ['of a worker that was blocked', true, 'blocked_since = now()'],
  ])(
    'an assigned job %s and that says, as it ends, that it started after its deadline or later than 600 ms after its claim',
    async (_, isReported, change) => {
      for (const [laterMs, wrong] of [
        [400, []],
        [900, ['started late']],
        [1700, ['start deadline', 'started late']],
      ] as const) {
        const { scene, worker, running } = await assignedJob()
        const job = await scene.job()
        await scene.commit([
          `update sluice.queue set deadline_at = clock_timestamp() + interval '1.5 s' where id = $1`,
          job,
        ])
        await scene.give(worker, [job], 0)
        if (change !== '') await scene.commit([`update sluice.workers set ${change} where id = $1`, worker])
        await scene.commit([COMPLETE, running])
        if (isReported) await scene.commit([START, job])
        await scene.commit([completeLater(laterMs), job])
        expect((await scene.rules()).sort(), `${laterMs} ms`).toEqual(wrong)
      }
    },
  )

  test('assigned jobs that start beyond the slots of their worker', async () => {
    const scene = await open()
    const worker = await scene.worker(0, 1)
    const [, assigned] = await scene.together(worker, 2, 1)
    expect(await scene.rules()).toEqual([])
    await scene.commit([START, assigned])
    expect(await scene.rules()).toEqual(['running within slots'])
  })

  test('assigned jobs that stay with a worker that has lost its lease', async () => {
    const { scene, worker, running } = await assignedJob()
    await scene.commit([COMPLETE, running])
    await scene.commit([LEAVE, worker])
    expect(await scene.rules()).toEqual(['running under a holding'])
  })

  test('an assigned job that starts after its worker has lost its lease', async () => {
    const { scene, worker, running, assigned } = await assignedJob()
    await scene.commit([COMPLETE, running])
    await scene.pass(SILENT_MS)
    await scene.commit([lose(0, true), assigned], [LEAVE, worker])
    expect(await scene.rules()).toEqual([])
    await scene.commit([
      `with gone as (delete from sluice.queue where id = $1 returning *)
       insert into sluice.claims (worker_id, seq, class_id, started_at, ids, ready_ats) select $2, 9, class_id, clock_timestamp(), array[id], array[ready_at] from gone`,
      assigned,
      worker,
    ])
    expect((await scene.rules()).sort()).toEqual([
      'attempts count up',
      'running under a holding',
      'running within slots',
    ])
  })

  test('a claim that has assigned a job that it does not list', async () => {
    const { scene, assigned } = await assignedJob()
    await scene.commit([
      'update sluice.claims set assigned = array[$1::bigint, $1 + 1000] where $1 = any (ids)',
      assigned,
    ])
    expect(await scene.rules()).toEqual(['copies agree'])
  })

  test.each([
    ['prefetch is off', { prefetch: 0 }],
    ['there is one slot', { slots: 1 }],
    ['jobs are spread', { placement: 'spread' }],
  ] as const)('a job that is assigned in a lane where %s', async (_, lane) => {
    const scene = await open(lane)
    await scene.together(await scene.worker(0, 1), 2, 1)
    expect(await scene.rules()).toEqual(['prefetch'])
  })

  test.each([
    ['that is paused', PAUSE],
    [
      'of which more slots are held than its lowered limit',
      'update sluice.lanes set slots = 2 where name = $1',
    ],
    [
      'whose slots another worker waits for',
      `update sluice.holdings set wants = true where lane = $1 and worker_id = (select min(worker_id) from sluice.holdings where lane = $1)`,
    ],
  ])('a job that is assigned in a lane %s', async (_, statement) => {
    const scene = await open({ slots: 4 })
    await scene.worker(0, 1)
    const worker = await scene.worker(0, 2)
    await scene.commit([statement, scene.lane])
    await scene.together(worker, 1, 0)
    expect(await scene.rules()).toEqual(['prefetch'])
  })

  test('more jobs that are assigned than the lane allows', async () => {
    const scene = await open({ prefetch: 3 })
    const worker = await scene.worker(0, 2)
    await scene.together(worker, 5, 0)
    expect(await scene.rules()).toEqual([])
    await scene.together(worker, 1, 0)
    expect(await scene.rules()).toEqual(['prefetch'])
  })

  test.each([
    [
      'whose task fails when it is lost',
      `insert into sluice.tasks (name, lane, class_id, on_lost) select 'forged', lane, id, 'fail' from sluice.classes where id = $1`,
    ],
    ['whose task draws from budgets', 'update sluice.classes set budgeted = true where id = $1'],
  ])('an assigned job %s', async (_, statement) => {
    const scene = await open()
    onTestFinished(async () => {
      await database.sql('delete from sluice.tasks')
    })
    await scene.commit([statement, scene.classId])
    await scene.together(await scene.worker(0, 2), 1, 0)
    expect(await scene.rules()).toEqual(['prefetch'])
  })

  test('an assigned job whose task runs in the process pool of the worker', async () => {
    const scene = await open()
    const worker = await scene.worker(0, 2)
    await scene.commit([`update sluice.workers set pooled = '{other,forged}' where id = $1`, worker])
    await scene.together(worker, 1, 0)
    expect(await scene.rules()).toEqual(['prefetch'])
  })

  test.each([
    ['that a lost worker may have started', 'update sluice.queue set certain = true where id = $1'],
    [
      'whose start deadline is less than a second away',
      `update sluice.queue set deadline_at = clock_timestamp() + interval '900 ms' where id = $1`,
    ],
  ])('an assigned job %s', async (_, statement) => {
    const scene = await open()
    const worker = await scene.worker(0, 2)
    const job = await scene.job()
    await scene.commit([statement, job])
    await scene.give(worker, [job], 0)
    expect(await scene.rules()).toEqual(['prefetch'])
  })

  test('an assigned job that holds a place in a window', async () => {
    const scene = await open()
    const worker = await scene.worker(0, 2)
    const [row] = await database.sql<{ id: string }>(
      `insert into sluice.jobs (task, composite, state) values ('forged', 'group', 'scheduled') returning id`,
    )
    await scene.commit(
      [`insert into sluice.graphs (hash, body) values ('forged', '{}') on conflict do nothing`],
      [
        `insert into sluice.composites (job_id, graph, node, window_size) values ($1, 'forged', 'forged', 2)`,
        row!.id,
      ],
    )
    const [child] = await database.sql<{ id: string }>(
      `insert into sluice.jobs (class_id, task, parent_id, root_id, idx) values ($1, 'forged', $2, $2, 0) returning id`,
      [scene.classId, row!.id],
    )
    expect(await scene.rules()).toEqual([])
    await scene.give(worker, [child!.id], 0)
    expect(await scene.rules()).toEqual(['prefetch'])
  })
})
