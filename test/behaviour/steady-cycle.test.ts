import pg from 'pg'
import { expect, test } from 'vitest'
import {
  type AskedCycle,
  type CycleRow,
  EPOCH,
  MUST_NOT_RUN_TWICE,
  OTHER,
  useCycles,
  WORKER,
} from '../support/cycle-by-hand.ts'
import { useDatabase } from '../support/database.ts'
import { useCommitChecker } from '../support/watched-commits.ts'

const database = useDatabase()
useCommitChecker(database)
const { steady: cycle, submit, addClass, classId } = useCycles(database)

const UNSTEADY = [{ id: null, seq: null, class_id: null, assigned: null, report: { unsteady: true } }]

const count = async (table: string) => (await database.sql(`select 1 from sluice.${table}`)).length

test('is not steady while another class of the worker has a job that is ready', async () => {
  const other = await addClass('other')
  await submit(2)
  expect(await cycle({ free: 1, others: [other] })).toHaveLength(1)
  await database.sql(`insert into sluice.jobs (task, class_id) values ('other', $1)`, [other])
  expect(await cycle({ known: '9000000000000000000', free: 1, run: 1, others: [other] })).toEqual(UNSTEADY)
})

test('records what completed and takes the next jobs in order', async () => {
  await submit(6)
  const first = await cycle()
  expect(first).toHaveLength(4)
  const rest = await cycle({ known: first.at(-1)!.seq, done: first })
  expect(rest).toHaveLength(2)
  expect(Number(rest[0]!.id)).toBeGreaterThan(Number(first[3]!.id))
  expect(await count('outcomes')).toBe(4)
  expect(await cycle({ known: rest[0]!.seq, done: rest, keep: 1 })).toEqual([])
  expect(await count('claims')).toBe(0)
  // What it neither uses nor keeps is given back.
  expect(await database.sql('select slots from sluice.holdings where worker_id = $1', [WORKER])).toEqual([
    { slots: 1 },
  ])
})

test('records attempts that failed beside those that completed, and takes the jobs that come back', async () => {
  await submit(5)
  const first = await cycle()
  const [one, two, three, four] = first as [CycleRow, CycleRow, CycleRow, CycleRow]
  const rest = await cycle({
    known: four.seq,
    done: [one, two],
    failed: [three],
    back: [[four, { ending: 'retry' }]],
  })
  expect(rest.map(({ id }) => id)).toEqual([four.id, String(Number(four.id) + 1)])
  const ended = await database.sql('select id::text, state from sluice.outcomes order by id')
  expect(ended.map(({ state }) => state)).toEqual(['completed', 'completed', 'failed'])
  expect(await count('attempts')).toBe(1)
  // An ending that it no longer holds asks for a resync.
  expect(
    (await cycle({ known: rest.at(-1)!.seq, back: [[three, { ending: 'retry' }]] })).at(-1)!.report,
  ).toEqual({
    resync: true,
  })
})

test('an idle poll locks nothing, and no other cycle is needed', async () => {
  const other = await addClass('other')
  expect(await cycle({ keep: 4, others: [other] })).toEqual([])
  const [row] = await database.sql<{ locked: boolean }>(
    'select xmax::text::bigint > 0 as locked from sluice.holdings where worker_id = $1',
    [WORKER],
  )
  expect(row).toEqual({ locked: false })
  // Slots to give back, a job of another class, jobs that may belong to others: for the general cycle.
  expect(await cycle({ keep: 3 })).toEqual(UNSTEADY)
  expect(await cycle({ keep: 4, fresh: 1000 })).toEqual(UNSTEADY)
  await database.sql(`insert into sluice.jobs (task, class_id) values ('other', $1)`, [other])
  expect(await cycle({ keep: 4, others: [other] })).toEqual(UNSTEADY)
})

test('an idle poll leaves a request for slots, and claims that it does not know of, to the general cycle', async () => {
  await database.sql('update sluice.holdings set wants = true where worker_id = $1', [WORKER])
  expect(await cycle({ keep: 4 })).toEqual(UNSTEADY)
  await database.sql('update sluice.holdings set wants = false where worker_id = $1', [WORKER])
  await submit(1)
  expect(await cycle({ free: 1, keep: 4 })).toHaveLength(1)
  expect(await cycle({ keep: 4, known: '0' })).toEqual(UNSTEADY)
})

test('carried out twice, it takes jobs once', async () => {
  await submit(8)
  expect(await cycle({ free: 2 })).toHaveLength(2)
  expect(await cycle({ free: 2 })).toEqual(UNSTEADY)
  expect(await count('running')).toBe(2)
})

test('an ending that it no longer holds asks for a resync, and nothing is taken', async () => {
  await submit(8)
  const [first, second] = (await cycle({ free: 2 })) as [CycleRow, CycleRow]
  await cycle({ known: second.seq, done: [first], run: 1, free: 1 })
  const [{ seq: known }] = (await database.sql<{ seq: string }>(
    'select max(seq) as seq from sluice.claims',
  )) as [{ seq: string }]
  const rows = await cycle({ known, done: [first, second], run: 0, free: 1 })
  expect(rows).toEqual([{ id: null, seq: null, class_id: null, assigned: null, report: { resync: true } }])
})

const DISTURBED: [what: string, sql: string, asked?: AskedCycle][] = [
  ['an older epoch', 'select 1', { epoch: EPOCH - 1 }],
  ['more than the slots in hand', 'select 1', { run: 2 }],
  ['a worker that drains', `update sluice.workers set draining = true where id = ${WORKER}`],
  ['a disabled lane', `update sluice.lanes set enabled = false where name = 'steady'`],
  ['a limit that was lowered', `update sluice.lanes set slots = 3 where name = 'steady'`],
  ['a limit for each worker', `update sluice.lanes set per_worker = 3 where name = 'steady'`],
  [
    'another worker that waits for slots, for a class that this one does not serve',
    `update sluice.holdings set wants = true, asked_at = now(), asks = '{2147483647}' where worker_id = ${OTHER}`,
  ],
  ['a class that draws from budgets', `update sluice.classes set budgeted = true where lane = 'steady'`],
  ['a job that is late at the head', `update sluice.queue set deadline_at = now() - interval '1 second'`],
  ['a job that may belong to workers that come first', 'select 1', { fresh: 3_600_000 }],
  ['claims that have to wait after a crash', 'delete from sluice.generations'],
]

test.for(DISTURBED)('leaves it to the general cycle and writes nothing: %s', async ([, sql, asked]) => {
  await submit(4)
  await database.sql(sql)
  expect(await cycle(asked)).toEqual(UNSTEADY)
  expect(await count('claims')).toBe(0)
  expect(await count('queue')).toBe(4)
})

const held = () =>
  database.sql<{ id: string; assigned: boolean }>('select id, assigned from sluice.claimed order by id')
const ids = (rows: readonly { readonly id: string | null }[]) => rows.map(({ id }) => id)

test('assigns jobs beyond the slots, in order, and they count as queued', async () => {
  await submit(8)
  const rows = await cycle({ ahead: 3 })
  expect(rows.map(({ assigned }) => assigned)).toEqual([false, false, false, false, true, true, true])
  expect(await count('running')).toBe(4)
  expect(
    await database.sql(
      `select state::text, started_at, worker_id::integer as worker from sluice.jobs where id = any ($1)`,
      [ids(rows.slice(4))],
    ),
  ).toEqual(Array(3).fill({ state: 'ready', started_at: null, worker: WORKER }))
})

test('records starts with the endings that made room for them', async () => {
  await submit(8)
  const rows = await cycle({ ahead: 3 })
  const known = rows.at(-1)!.seq
  const [done, begun] = [rows.slice(0, 2), rows.slice(4, 6)]
  await cycle({ known, done, begun, run: 4, free: 0 })
  expect((await held()).filter(({ assigned }) => assigned)).toEqual([{ id: rows[6]!.id, assigned: true }])
  expect(await count('running')).toBe(4)
})

test('a start of a job that it no longer holds asks for a resync, and nothing is taken', async () => {
  await submit(12)
  const rows = await cycle({ ahead: 2 })
  const known = rows.at(-1)!.seq
  await database.sql('select sluice.hand_back_v1($1, $2, $3, $4)', [WORKER, [rows[4]!.id], known, EPOCH])
  const next = await cycle({
    known,
    done: rows.slice(0, 2),
    begun: rows.slice(4, 6),
    run: 4,
    free: 0,
    ahead: 2,
  })
  expect(next.map(({ report }) => report)).toEqual([{ resync: true }])
  // What ended is recorded, and so is the other start.
  expect(await count('outcomes')).toBe(2)
  expect((await held()).map(({ assigned }) => assigned)).toEqual([false, false, false])
})

test('an order to hand back that was given under an older epoch does nothing', async () => {
  await submit(6)
  const rows = await cycle({ ahead: 2 })
  const order = [WORKER, [rows[5]!.id], rows.at(-1)!.seq, EPOCH - 1]
  expect(await database.sql('select sluice.hand_back_v1($1, $2, $3, $4) as back', order)).toEqual([
    { back: 0 },
  ])
  expect((await held()).filter(({ assigned }) => assigned)).toHaveLength(2)
})

test('an assigned job of a task that must not run twice fails when its worker is lost', async () => {
  await submit(5)
  const rows = await cycle({ ahead: 1 })
  await database.sql(MUST_NOT_RUN_TWICE)
  await database.sql(`update sluice.workers set seen_at = now() - interval '1 hour' where id = $1`, [WORKER])
  const last = rows[4]!
  await database.sql('select sluice.end_lost_claims_v1($1, $2, $3)', [
    WORKER,
    [last.seq],
    'worker w7 stopped',
  ])
  expect(await database.sql('select state::text, error from sluice.jobs where id = $1', [last.id])).toEqual([
    {
      state: 'failed',
      error: 'lost: worker w7 stopped after attempt 1 had been assigned; it may have started',
    },
  ])
})

test('a retry that goes back unstarted keeps the start of the attempt before', async () => {
  await submit(1)
  const [first] = await cycle({ free: 1 })
  const end = (row: CycleRow, ending: string) =>
    database.sql('select sluice.end_attempts_v1($1, $2)', [
      WORKER,
      JSON.stringify([{ id: Number(row.id), seq: Number(row.seq), ending }]),
    ])
  await end(first!, 'retry')
  const started = async () =>
    (await database.sql<{ at: Date }>('select started_at as at from sluice.queue'))[0]!.at
  const before = await started()
  const [again] = await cycle({ known: first!.seq, free: 0, ahead: 1 })
  expect(again).toMatchObject({ assigned: true })
  await end(again!, 'unstarted')
  expect(await started()).toEqual(before)
})

test.for(['recall', 'hand back'])('a %s that ends cancelled jobs tells who waits for them', async (what) => {
  await submit(6)
  const rows = await cycle({ ahead: 2 })
  const { id } = rows[5]!
  await database.sql('select sluice.cancel_job_v1($1, $2)', [id, 'not needed'])
  const hints: (string | undefined)[] = []
  const client = new pg.Client(database.directUrl)
  client.on('notification', (message) => hints.push(message.payload))
  await client.connect()
  try {
    await client.query('listen sluice')
    if (what === 'recall') await database.sql(`select sluice.recall_assigned_v1($1, '[]')`, [WORKER])
    else await database.sql('select sluice.hand_back_v1($1, $2, $3, $4)', [WORKER, [id], rows[5]!.seq, EPOCH])
    await client.query('select 1')
    expect(hints).toContain('done')
  } finally {
    await client.end()
  }
  expect(await database.sql('select state::text from sluice.jobs where id = $1', [id])).toEqual([
    { state: 'cancelled' },
  ])
})

test('an assigned job may end before its start was reported', async () => {
  await submit(6)
  const rows = await cycle({ ahead: 2 })
  expect(await cycle({ known: rows.at(-1)!.seq, done: rows, free: 0, ahead: 1 })).toEqual([])
  expect(await count('outcomes')).toBe(6)
  expect(await count('claims')).toBe(0)
})

test('takes the few jobs that are ready in fewer slots than it could use', async () => {
  await database.sql('update sluice.holdings set slots = 2 where worker_id = $1', [WORKER])
  await submit(2)
  const rows = await cycle({ free: 4, keep: 2 })
  expect(rows).toHaveLength(2)
  // One that ends is recorded although the worker could use more slots than it has.
  expect(await cycle({ known: rows[1]!.seq, done: [rows[0]!], run: 1, free: 3, keep: 2 })).toEqual([])
  expect(await count('outcomes')).toBe(1)
})

test('is not steady where more is ready than it has slots for', async () => {
  await database.sql('update sluice.holdings set slots = 2 where worker_id = $1', [WORKER])
  await submit(3)
  expect(await cycle({ free: 4, keep: 2 })).toEqual(UNSTEADY)
  // Nor where it has none at all.
  await database.sql('update sluice.holdings set slots = 0 where worker_id = $1', [WORKER])
  expect(await cycle({ free: 4, keep: 0 })).toEqual(UNSTEADY)
})

test('takes what its slots allow once it has asked for more and the lane has no more', async () => {
  await submit(8)
  await database.sql(
    `update sluice.holdings set wants = true, asked_at = now(), asks = '{}' where worker_id = $1`,
    [WORKER],
  )
  await database.sql('update sluice.workers set capacity = 8')
  const rows = await cycle({ free: 6, ahead: 1 })
  expect(rows.map(({ assigned }) => assigned)).toEqual([false, false, false, false, true])
  // Another slot is to be had: the general cycle gets it.
  await database.sql(`update sluice.lanes set slots = 5 where name = 'steady'`)
  expect(await cycle({ known: rows.at(-1)!.seq, run: 4, free: 2 })).toEqual(UNSTEADY)
})

/** The other worker was refused slots. It serves the same class. */
const otherWaits = () =>
  database.sql(
    `update sluice.holdings set wants = true, asked_at = now(), asks = array[$1::integer] where worker_id = $2`,
    [classId(), OTHER],
  )
const slotsHeld = async () =>
  (await database.sql('select slots from sluice.holdings where worker_id = $1', [WORKER]))[0]!.slots

test('keeps its slots while it fills them, though a worker with the same class waits, and is assigned nothing', async () => {
  await submit(12)
  await otherWaits()
  const first = await cycle({ keep: 0, ahead: 2 })
  expect(first.map(({ assigned }) => assigned)).toEqual([false, false, false, false])
  const next = await cycle({ known: first[0]!.seq, done: first.slice(0, 2), run: 2, free: 2, keep: 0 })
  expect(next).toHaveLength(2)
  expect(await slotsHeld()).toBe(4)
})

test('leaves it to the general cycle when another worker waits and not all slots can be filled', async () => {
  await submit(3)
  await otherWaits()
  expect(await cycle({ keep: 0 })).toEqual(UNSTEADY)
  expect(await count('claims')).toBe(0)
})

test('releases its slots to a worker that waits when others are taking all the jobs', async () => {
  await submit(4)
  await otherWaits()
  const others = new pg.Client(database.directUrl)
  const listener = new pg.Client(database.directUrl)
  const heard: (string | undefined)[] = []
  await others.connect()
  await listener.connect()
  try {
    listener.on('notification', ({ payload }) => heard.push(payload))
    await listener.query('listen sluice')
    await others.query('begin')
    await others.query('select 1 from sluice.queue for update')
    expect(await cycle({ keep: 4 })).toEqual([])
    expect(await slotsHeld()).toBe(0)
    await listener.query('select 1')
    expect(heard).toEqual(['slots'])
  } finally {
    await others.end()
    await listener.end()
  }
})

test('a resync takes back what is assigned, except what the worker names as started', async () => {
  await submit(8)
  const rows = await cycle({ ahead: 4 })
  const named = rows.slice(0, 5).map(({ id }) => ({ id: Number(id), attempt: 1 }))
  const told = await database.sql<{ job_id: string; assigned: boolean }>(
    'select job_id, assigned from sluice.resync_v1($1, $2) order by job_id',
    [WORKER, JSON.stringify(named)],
  )
  expect(told).toEqual(rows.slice(0, 5).map(({ id }, at) => ({ job_id: id, assigned: at === 4 })))
  // As if they had not been assigned: the next attempt is the first one.
  expect(
    await database.sql('select attempt, losses, certain, started_at from sluice.queue where id = any ($1)', [
      ids(rows.slice(5)),
    ]),
  ).toEqual(Array(3).fill({ attempt: 0, losses: 0, certain: false, started_at: null }))
  expect(await count('attempts')).toBe(0)
})

test('what was assigned to a lost worker counts no loss, and has to start at once the next time', async () => {
  await submit(8)
  const rows = await cycle({ ahead: 2 })
  await database.sql(`update sluice.workers set seen_at = now() - interval '1 hour' where id = $1`, [WORKER])
  const seqs = [...new Set(rows.map(({ seq }) => seq))]
  await database.sql('select sluice.end_lost_claims_v1($1, $2, $3)', [
    WORKER,
    seqs,
    'worker w7 stopped answering',
  ])
  const back = await database.sql(
    'select attempt, losses, certain from sluice.queue where id = any ($1) order by id',
    [ids(rows)],
  )
  expect(back).toEqual([
    ...Array(4).fill({ attempt: 1, losses: 1, certain: false }),
    ...Array(2).fill({ attempt: 1, losses: 0, certain: true }),
  ])
  expect(
    await database.sql('select ending, error from sluice.attempts where job_id = $1', [rows[4]!.id]),
  ).toEqual([
    {
      ending: 'returned',
      error: 'assigned, and not known to have started: worker w7 stopped answering',
    },
  ])
  // The last row of the first cycle is the newest that this worker knows of.
  const next = await cycle({ known: rows.at(-1)!.seq, ahead: 4 })
  expect(next.map(({ assigned }) => assigned)).toEqual([false, false, false, false])
})

test('a heartbeat thread hands back what it names and what the loop has not heard of', async () => {
  await submit(12)
  const first = await cycle({ ahead: 3, free: 3 })
  const known = first.at(-1)!.seq
  const second = await cycle({ known, run: 3, free: 1, ahead: 2 })
  const [one, , started] = first.slice(3)
  await database.sql('select sluice.hand_back_v1($1, $2, $3, $4)', [WORKER, [one!.id], known, EPOCH])
  const left = new Map((await held()).map(({ id, assigned }) => [id, assigned]))
  expect(left.has(one!.id!)).toBe(false)
  expect(left.get(started!.id!)).toBe(true)
  expect(second.map(({ id }) => left.get(id!))).toEqual([false, undefined, undefined])
})

test('a cancel that was asked for wins over going back to the queue', async () => {
  await submit(6)
  const rows = await cycle({ ahead: 2 })
  const { id, seq } = rows[5]!
  expect(
    await database.sql('select sluice.cancel_job_v1($1, $2)::text as state', [id, 'not needed']),
  ).toEqual([{ state: 'ready' }])
  await database.sql('select sluice.end_attempts_v1($1, $2)', [
    WORKER,
    JSON.stringify([{ id: Number(id), seq: Number(seq), ending: 'unstarted' }]),
  ])
  expect(
    await database.sql('select state::text, attempt, started_at from sluice.jobs where id = $1', [id]),
  ).toEqual([{ state: 'cancelled', attempt: 0, started_at: null }])
})

test('an assigned job has the priority that it was given meanwhile when it goes back', async () => {
  await submit(6)
  const rows = await cycle({ ahead: 2 })
  const { id } = rows[5]!
  expect(
    await database.sql('select id, before from sluice.reprioritise_v1(array[$1::bigint], 9)', [id]),
  ).toEqual([{ id, before: 0 }])
  await database.sql(`select sluice.recall_assigned_v1($1, '[]')`, [WORKER])
  expect(await database.sql('select rank from sluice.queue where id = $1', [id])).toEqual([{ rank: -9 }])
})
