import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { task } from '../../src/index.ts'
import { useApps } from '../support/apps.ts'
import { type CycleRow, EPOCH, useCycles, WORKER } from '../support/cycle-by-hand.ts'
import { useDatabase } from '../support/database.ts'
import { Gate } from '../support/gate.ts'
import { until } from '../support/until.ts'

// A claim decides who may end its jobs. If it ever let two endings of a job through, the primary key of sluice.outcomes would still refuse the second.
// These tests plant an outcome of a job that runs or waits. Nothing in Sluice does that, so there is no commit checker here.

const database = useDatabase()

const plantOutcome = (id: string | null, attempt = 1) =>
  database.sql(
    `insert into sluice.outcomes (id, class_id, state, result, ready_at, started_at, attempt)
     select d.id, d.class_id, 'completed', '"first"', now(), now(), $2 from sluice.job_data d where d.id = $1`,
    [id, attempt],
  )
const claims = () => database.sql('select ctid, xmin, * from sluice.claims order by seq')
const outcomes = () => database.sql('select ctid, xmin, * from sluice.outcomes order by id')
const queue = () => database.sql('select ctid, xmin, * from sluice.queue order by id')
const stored = async () => ({
  claims: await claims(),
  outcomes: await outcomes(),
  queue: await queue(),
  attempts: await database.sql('select * from sluice.attempts'),
})

const SECOND_OUTCOME = { code: '23505', constraint: 'outcomes_pkey' }
const RESYNC = [{ id: null, seq: null, class_id: null, assigned: null, report: { resync: true } }]

describe('of a claim', () => {
  const { steady, general, submit } = useCycles(database)

  /** Two jobs of one claim: they run, or are assigned. The first has an outcome already. */
  let jobs: readonly [ended: CycleRow, other: CycleRow]
  const take = async (asked: { readonly free: number; readonly ahead?: number }) => {
    await submit(2)
    jobs = (await steady(asked)) as unknown as typeof jobs
    await plantOutcome(jobs[0].id)
  }

  // The view sluice.jobs, through which the jobs are removed, expects each of them in one table.
  afterEach(() => database.sql('delete from sluice.outcomes'))

  const known = () => jobs[0].seq

  describe('whose jobs run', () => {
    beforeEach(() => take({ free: 2 }))

    test.for<[what: string, cycle: () => Promise<CycleRow[]>]>([
      ['of the whole claim', () => general({ known: known(), done: jobs, free: 0 })],
      ['of the whole claim, in a steady cycle', () => steady({ known: known(), done: jobs, free: 0 })],
      ['of one job of the claim', () => general({ known: known(), done: [jobs[0]], run: 1, free: 0 })],
      ['that is a failure', () => general({ known: known(), failed: [jobs[0]], run: 1, free: 0 })],
      [
        'beside the failure of another job',
        () => general({ known: known(), done: [jobs[0]], failed: [jobs[1]], free: 0 }),
      ],
    ])(
      'refuses a cycle with a second ending %s, and keeps the first outcome and the claim',
      async ([, cycle]) => {
        const before = await stored()
        await expect(cycle()).rejects.toMatchObject(SECOND_OUTCOME)
        expect(await stored()).toEqual(before)
        expect(before.claims).toMatchObject([{ ids: [jobs[0].id, jobs[1].id] }])
        expect(before.outcomes).toMatchObject([{ id: jobs[0].id, result: 'first' }])
      },
    )

    test.for([{ ending: 'retry' }, { ending: 'retry', delayMs: 1000 }, { ending: 'returned' }])(
      'does not queue the job again when its ending is $ending, and asks for a resync',
      async (ending) => {
        const before = await stored()
        expect(await general({ known: known(), back: [[jobs[0], ending]], run: 1, free: 0 })).toEqual(RESYNC)
        expect(await stored()).toEqual(before)
      },
    )

    test('takes the job off the claim at a resync, and keeps the other job', async () => {
      const before = await outcomes()
      const named = jobs.map(({ id }) => ({ id: Number(id), attempt: 1 }))
      const rows = await database.sql('select job_id from sluice.resync_v1($1, $2)', [
        WORKER,
        JSON.stringify(named),
      ])
      expect(rows).toEqual([{ job_id: jobs[1].id }])
      expect(await claims()).toMatchObject([{ ids: [jobs[1].id] }])
      expect(await outcomes()).toEqual(before)
      expect(await queue()).toEqual([])
    })

    test('takes the job off the claim when a server resyncs several workers', async () => {
      const before = await outcomes()
      const rows = await database.sql('select job_id from sluice.resyncs_v1(array[$1::bigint])', [WORKER])
      expect(rows).toEqual([{ job_id: jobs[1].id }])
      expect(await claims()).toMatchObject([{ ids: [jobs[1].id] }])
      expect(await outcomes()).toEqual(before)
    })

    test('queues only the other job when the claim is taken over', async () => {
      const before = await outcomes()
      const [lost] = await database.sql('select ids, requeued from sluice.end_lost_claims_v1($1, $2, $3)', [
        WORKER,
        [known()],
        'worker w7 stopped answering',
      ])
      expect(lost).toEqual({ ids: [jobs[1].id], requeued: 1 })
      expect(await claims()).toEqual([])
      expect(await queue()).toMatchObject([{ id: jobs[1].id }])
      expect(await outcomes()).toEqual(before)
    })
  })

  describe('whose jobs are assigned', () => {
    beforeEach(() => take({ free: 0, ahead: 2 }))

    test('does not queue the job again when the worker is asked what it has started', async () => {
      const before = await outcomes()
      const rows = await database.sql(`select job_id from sluice.resync_v1($1, '[]')`, [WORKER])
      expect(rows).toEqual([{ job_id: null }])
      expect(await claims()).toEqual([])
      expect(await queue()).toMatchObject([{ id: jobs[1].id }])
      expect(await outcomes()).toEqual(before)
    })

    test('does not queue the job again when a blocked worker hands it back', async () => {
      const before = await outcomes()
      const [handedBack] = await database.sql('select sluice.hand_back_v1($1, $2, $3, $4) as jobs', [
        ...[WORKER, jobs.map(({ id }) => id), known(), EPOCH],
      ])
      expect(handedBack).toEqual({ jobs: 1 })
      expect(await claims()).toMatchObject([{ ids: [jobs[0].id] }])
      expect(await queue()).toMatchObject([{ id: jobs[1].id }])
      expect(await outcomes()).toEqual(before)
    })
  })

  test('refuses to end a job that waits', async () => {
    await submit(2)
    const [ended] = await queue()
    await plantOutcome(String(ended!.id))
    const before = await stored()
    const ending = database.sql(
      `select * from sluice.end_queued_v1(array(select id from sluice.queue), 'cancelled', 'x', true)`,
    )
    await expect(ending).rejects.toMatchObject(SECOND_OUTCOME)
    expect(await stored()).toEqual(before)
    expect(before.queue).toHaveLength(2)
  })
})

describe('of a workflow', () => {
  afterEach(() =>
    database.sql('truncate sluice.job_data, sluice.composites, sluice.outcomes, sluice.graphs cascade'),
  )

  test('refuses to end a workflow', async () => {
    const [row] = await database.sql<{ id: string }>(
      `insert into sluice.job_data (task, composite) values ('flow', 'workflow') returning id`,
    )
    const id = row!.id
    await database.sql(`insert into sluice.graphs (hash, body) values ('flow', '{}')`)
    await database.sql(
      `insert into sluice.composites (job_id, graph, node, started_at) values ($1, 'flow', 'flow', now())`,
      [id],
    )
    await plantOutcome(id)
    const before = { composites: await database.sql('select * from sluice.composites'), ...(await stored()) }
    const settle = [{ job: Number(id), settle: { state: 'failed', error: 'x' } }]
    const settling = database.sql(
      'select sluice.settle_composites_v1(array[$1::bigint], $2, clock_timestamp())',
      [id, JSON.stringify(settle)],
    )
    await expect(settling).rejects.toMatchObject(SECOND_OUTCOME)
    expect({
      composites: await database.sql('select * from sluice.composites'),
      ...(await stored()),
    }).toEqual(before)
    expect(before.composites).toMatchObject([{ ended: false }])
  })
})

describe('of a job of a worker', () => {
  const apps = useApps(database)
  afterEach(() => database.sql('truncate sluice.job_data, sluice.outcomes, sluice.attempts'))

  type Ending = 'completes' | 'fails' | 'is retried'
  const TIMES: readonly Ending[] = ['completes', 'fails', 'is retried']

  test.for(TIMES)(
    'the worker records its other endings and goes on when the job %s',
    async (ending: Ending) => {
      const gate = new Gate()
      const act = task({
        name: 'act',
        retry: { attempts: ending === 'is retried' ? 5 : 1, delay: 0 },
        run: async (n: number) => {
          await gate.pass(String(n))
          if (n === 2 && ending !== 'completes') throw new Error('x')
          return n
        },
      })
      const app = await apps.open({ tasks: [act], lanes: { few: { slots: 3, tasks: ['act'] } } })
      await app.work({ capacity: 3 })
      const jobs = await app.submitMany(act, [1, 2, 3])
      await gate.arrived(3)
      await plantOutcome(jobs[1]!.id)
      const before = await outcomes()
      gate.open()

      expect(await jobs[0]!.result()).toBe(1)
      expect(await jobs[2]!.result()).toBe(3)
      const later = await app.submitMany(act, [4, 5, 6])
      for (const [i, job] of later.entries()) expect(await job.result()).toBe(4 + i)
      await until(async () => (await claims()).length === 0, 'no claim to be left')
      expect(await queue()).toEqual([])
      expect((await outcomes()).filter(({ id }) => id === jobs[1]!.id)).toEqual(before)
      expect(gate.arrivals.filter((n) => n === '2')).toEqual(['2'])
    },
  )
})
