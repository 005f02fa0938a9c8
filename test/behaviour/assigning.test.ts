import { afterEach, describe, expect, test } from 'vitest'
import { type CycleRow, MUST_NOT_RUN_TWICE, OTHER, useCycles, WORKER } from '../support/cycle-by-hand.ts'
import { useDatabase } from '../support/database.ts'
import { useCommitChecker } from '../support/watched-commits.ts'

// Which jobs a cycle assigns beyond the slots. The steady cycle and the general one keep the same rules.

const database = useDatabase()
useCommitChecker(database)
const cycles = useCycles(database)
const { general, submit, addClass } = cycles

const assignedOf = (rows: readonly CycleRow[]) => rows.map(({ assigned }) => assigned)
/** Of four jobs that start, and so many that are assigned. */
const started = (assigned: number) => [...Array(4).fill(false), ...Array(assigned).fill(true)]

/** Changes the last job but one of those that are ready. */
const LAST_BUT_ONE = '(select max(id) - 1 from sluice.queue)'

const MUST_START: [what: string, sql: string][] = [
  [
    'a job that a lost worker may have started',
    `update sluice.queue set certain = true where id = ${LAST_BUT_ONE}`,
  ],
  [
    'a job whose start deadline is near',
    `update sluice.queue set deadline_at = now() + interval '950 milliseconds' where id = ${LAST_BUT_ONE}`,
  ],
  [
    'a child that holds a place in a window',
    `insert into sluice.graphs (hash, body) values ('fan', '{}') on conflict do nothing;
     insert into sluice.jobs (task, composite, state, started_at) values ('fan', 'fanout', 'running', now());
     insert into sluice.composites (job_id, started_at, graph, node, window_size, tokens)
       select id, now(), 'fan', 'fan', 1, 1 from sluice.job_data where composite is not null;
     update sluice.jobs set parent_id = f.job_id, root_id = f.job_id, idx = 0 from sluice.composites f where jobs.id = ${LAST_BUT_ONE}`,
  ],
]

function needsProcesses(worker: number): string {
  return `update sluice.workers set pooled = '{steady}' where id = ${worker}`
}

const BOUNDS: [what: string, sql: string, assigned: number][] = [
  ['as many as it is asked for', 'select 1', 4],
  ['no more than its lane allows', `update sluice.lanes set prefetch = 2 where name = 'steady'`, 2],
  ['none in a lane with prefetch off', `update sluice.lanes set prefetch = 0 where name = 'steady'`, 0],
  ['none in a lane that is spread', `update sluice.lanes set placement = 'spread' where name = 'steady'`, 0],
  ['nothing of a task whose jobs must not run twice', MUST_NOT_RUN_TWICE, 0],
  ['nothing of a task that needs a process of the pool of the worker', needsProcesses(WORKER), 0],
  [
    'as many as it is asked for of a task that needs a process only in another worker',
    needsProcesses(OTHER),
    4,
  ],
]

describe.each([
  ['the steady cycle', cycles.steady],
  ['the general cycle', cycles.general],
] as const)('%s', (_, cycle) => {
  test.for(BOUNDS)('assigns %s', async ([, sql, assigned]) => {
    await submit(12)
    await database.sql(sql)
    expect(assignedOf(await cycle({ ahead: 4 }))).toEqual(started(assigned))
  })

  test.for(MUST_START)('assigns nothing from here on: %s', async ([, sql]) => {
    await submit(8)
    await database.sql(sql)
    expect(assignedOf(await cycle({ ahead: 4 }))).toEqual(started(2))
  })

  test('assigns nothing from the first job on that may belong to workers that come first', async () => {
    await submit(8)
    await database.sql(`update sluice.queue set ready_at = now() where id = ${LAST_BUT_ONE}`)
    expect(assignedOf(await cycle({ ahead: 4, fresh: 30_000 }))).toEqual(started(2))
  })

  test('assigns what became ready a moment ago where no other worker comes first', async () => {
    await submit(8)
    await database.sql(`update sluice.queue set ready_at = now() where id = ${LAST_BUT_ONE}`)
    expect(assignedOf(await cycle({ ahead: 4, fresh: null }))).toEqual(started(4))
  })

  test('assigns nothing in a lane with one slot', async () => {
    await submit(8)
    await database.sql(`update sluice.holdings set slots = 1 where worker_id = ${WORKER}`)
    await database.sql(`update sluice.lanes set slots = 1 where name = 'steady'`)
    expect(assignedOf(await cycle({ ahead: 4, free: 1, keep: 1 }))).toEqual([false])
  })

  test.for([
    ['has lost its slots to another one', 4, 0, 4],
    ['has lost some of its slots to another one', 4, 2, 2],
    ['has lost its slots, which nobody has taken', 4, 0, 0],
  ] as const)(
    'assigns nothing to a worker that uses more than it holds: it %s',
    async ([, run, own, others]) => {
      await submit(8)
      await database.sql(
        `update sluice.holdings set slots = case worker_id when $1 then $2::integer else $3 end`,
        [WORKER, own, others],
      )
      // What it believes to run may be more than its capacity.
      for (const free of [0, -2])
        expect((await cycle({ run, free, keep: 0, ahead: 4 })).filter(({ id }) => id !== null)).toEqual([])
    },
  )

  test('assigns jobs to a worker that uses all that it holds', async () => {
    await submit(8)
    const rows = await cycle({ run: 4, free: 0, ahead: 4 })
    expect(assignedOf(rows)).toEqual([true, true, true, true])
  })
})

test('the general cycle locks no row that it does not take, so that no other worker steps over it', async () => {
  await submit(8)
  await database.sql(`update sluice.queue set certain = true where id = ${LAST_BUT_ONE}`)
  const rows = await general({ ahead: 4 })
  expect(assignedOf(rows)).toEqual(started(2))
  const locked = () => database.sql('select id from sluice.queue where xmax::text::bigint > 0')
  expect(await locked()).toEqual([])
  // The job that must start at once is the first one now.
  expect(await general({ known: rows.at(-1)!.seq, run: 4, free: 0, ahead: 4 })).toEqual([])
  expect(await locked()).toEqual([])
})

test('the general cycle assigns nothing after the limit of the lane was lowered', async () => {
  await submit(12)
  const rows = await general({ ahead: 0 })
  await database.sql(`update sluice.lanes set slots = 3 where name = 'steady'`)
  const known = rows.at(-1)!.seq
  const [first] = rows
  expect(await general({ known, done: [first!], run: 3, free: 1, ahead: 4 })).toEqual([])
  // The slot that the job had is given back, and the sum fits again.
  const next = await general({ known, done: [rows[1]!], run: 2, free: 1, ahead: 4 })
  expect(assignedOf(next)).toEqual([false, true, true, true, true])
})

test('the general cycle assigns nothing while the worker runs more than perWorker allows', async () => {
  await submit(16)
  await database.sql(`update sluice.lanes set slots = null where name = 'steady'`)
  const rows = await general({ ahead: 4 })
  expect(assignedOf(rows)).toEqual(started(4))
  await database.sql(`update sluice.lanes set per_worker = 3 where name = 'steady'`)
  // Its four slots are in use until it hears of that: one ended, and an assigned job started there.
  const known = rows.at(-1)!.seq
  const next = { known, done: [rows[0]!], begun: [rows[4]!], run: 4, free: 0, ahead: 4 }
  expect(await general(next)).toEqual([])
  const back = { known, done: rows.slice(1, 3), run: 2, free: 1, ahead: 2 }
  expect(assignedOf(await general(back))).toEqual([false, true, true])
})

test('the general cycle assigns nothing in a lane that another worker waits for slots of', async () => {
  await submit(12)
  await database.sql(
    `update sluice.holdings set wants = true, asked_at = now(), asks = '{}' where worker_id = ${OTHER}`,
  )
  expect(assignedOf(await general({ ahead: 4 }))).toEqual(started(0))
})

test('the general cycle assigns nothing of a class that draws from budgets', async () => {
  await submit(12)
  const drawing = await addClass('drawing')
  await submit(4, drawing)
  await database.sql('update sluice.classes set budgeted = true where id = $1', [drawing])
  const rows = await general({ ahead: 10, others: [drawing] })
  expect(rows.map(({ class_id }) => class_id)).toEqual(Array(12).fill(cycles.classId()))
  expect(assignedOf(rows)).toEqual(started(8))
})

test('the general cycle assigns nothing of a task that needs a process of the pool beside one that does not', async () => {
  await submit(8)
  const pooled = await addClass('pooled')
  await submit(8, pooled)
  await database.sql(`update sluice.workers set pooled = '{pooled}' where id = ${WORKER}`)
  const rows = await general({ ahead: 6, others: [pooled] })
  expect(rows.map(({ class_id }) => class_id)).toEqual(Array(8).fill(cycles.classId()))
  expect(assignedOf(rows)).toEqual(started(4))
})

test('the general cycle assigns nothing while a worker that comes first has room', async () => {
  await submit(12)
  // All are new to this worker. The other one has room for four of them.
  await database.sql('update sluice.queue set ready_at = now()')
  await database.sql(`update sluice.workers set rank = -1, seen_at = now() where id = ${OTHER}`)
  const rows = await general({ ahead: 4, fresh: 30_000 })
  expect(assignedOf(rows.filter(({ id }) => id !== null))).toEqual(started(0))
  expect(rows.at(-1)!.report).toMatchObject({ ahead: 1 })
})

test('the general cycle leaves nothing to a worker that comes first where a backlog lies behind new jobs', async () => {
  await submit(12)
  // Retries, for example, come to the head of the queue.
  await database.sql(
    'update sluice.queue set ready_at = now() where id <= (select min(id) + 3 from sluice.queue)',
  )
  await database.sql(`update sluice.workers set rank = -1, seen_at = now() where id = ${OTHER}`)
  const rows = await general({ ahead: 4, fresh: 30_000 })
  expect(assignedOf(rows)).toEqual(started(4))
})

describe('lanes that share the capacity of the worker', () => {
  const OTHER_HOLDS_ALL = `update sluice.lanes set slots = 4 where name = 'tail';
    insert into sluice.holdings (worker_id, lane, epoch, slots) values (${OTHER}, 'tail', 1, 4) on conflict do nothing`

  /** The worker runs four jobs of the first lane already, or fewer and some of the second one. */
  async function assign(
    run: number,
    runElsewhere: number,
    more: Record<string, number> = {},
  ): Promise<boolean[]> {
    await database.sql(`insert into sluice.lanes (name) values ('tail')`)
    await database.sql(
      `insert into sluice.holdings (worker_id, lane, epoch, slots) values ($1, 'tail', (select max(epoch) from sluice.holdings where worker_id = $1), 0)`,
      [WORKER],
    )
    const second = await addClass('tail', 'tail')
    await submit(8)
    await submit(4, second)
    return assignedOf(
      await general({
        others: [second],
        othersAhead: -1,
        lane: 'tail',
        ahead: 3,
        run,
        runElsewhere,
        more,
        free: 0,
      }),
    )
  }

  /** Changes the second lane before the cycle that is about to run. */
  const onSecondLane = (sql: string) =>
    database.sql(
      `create function public.change_second() returns trigger language plpgsql as $$ begin ${sql}; return null; end $$;
       create trigger change after insert on sluice.job_data for each statement execute function public.change_second()`,
    )
  afterEach(() => database.sql('drop function if exists public.change_second cascade'))

  test('one that uses more than another one with ready jobs is assigned nothing', async () => {
    expect(await assign(4, 0)).toEqual([])
  })

  test('jobs in lanes that the cycle is not about use the capacity, too', async () => {
    const more = Object.fromEntries(Array.from({ length: 8 }, (_, n) => [`tail-${n}`, n === 7 ? 2 : 0]))
    await database.sql('insert into sluice.lanes (name) select unnest($1::text[])', [Object.keys(more)])
    await database.sql(
      `insert into sluice.holdings (worker_id, lane, epoch, slots)
       select $1, name, (select max(epoch) from sluice.holdings where worker_id = $1), 0 from unnest($2::text[]) name`,
      [WORKER, Object.keys(more)],
    )
    expect(await assign(2, 0, more)).toEqual([])
    await database.sql('delete from sluice.holdings where lane = any ($1)', [Object.keys(more)])
    await database.sql('delete from sluice.lanes where name = any ($1)', [Object.keys(more)])
  })

  test('those that use the same are assigned jobs', async () => {
    expect(await assign(2, 2)).toEqual([true, true, true])
  })

  test.for([
    ['is paused', `update sluice.lanes set enabled = false where name = 'tail'`],
    ['has no slots', `update sluice.lanes set slots = 0 where name = 'tail'`],
    ['has only slots that another worker holds', OTHER_HOLDS_ALL],
  ] as const)('one is assigned jobs if the other one %s', async ([, sql]) => {
    await onSecondLane(sql)
    expect(await assign(4, 0)).toEqual([true, true, true])
  })

  test('a worker that can run more is assigned jobs of either', async () => {
    await database.sql('update sluice.workers set capacity = 20')
    expect(await assign(4, 0)).toEqual([true, true, true])
  })
})

describe('classes that share a lane', () => {
  test('share what the lane allows, in the order of the lane', async () => {
    const other = await addClass('other')
    await submit(5)
    await submit(1, other)
    await submit(1)
    await submit(6, other)
    await submit(6)
    await database.sql(`update sluice.lanes set prefetch = 4 where name = 'steady'`)
    const rows = await general({ ahead: 8, others: [other] })
    expect(assignedOf(rows)).toEqual(started(4))
    const ready = await database.sql<{ id: string }>('select id from sluice.queue order by id limit 1')
    expect(Number(rows.at(-1)!.id)).toBeLessThan(Number(ready[0]!.id))
    expect(new Set(rows.slice(4).map(({ class_id }) => class_id)).size).toBe(2)
  })

  test('are assigned nothing behind a job that only a free slot gets started', async () => {
    const other = await addClass('other')
    await submit(7)
    await submit(1, other)
    await submit(6)
    const asked = { ahead: 8, others: [other], othersAhead: -1 }
    const rows = await general(asked)
    const report = rows.pop()
    expect(assignedOf(rows)).toEqual(started(3))
    // The worker leaves a slot free for it, once the assigned jobs before it have started.
    expect(report).toMatchObject({ id: null, report: { yieldTo: { steady: [{ rank: 0 }] } } })
    // It is the first in line now, and has the next free slot.
    const next = await general({ ...asked, known: rows.at(-1)!.seq, done: rows.slice(0, 1), run: 3, free: 1 })
    expect(next[0]).toMatchObject({ class_id: other, assigned: false })
  })

  test('are each assigned no more than was asked for of the class', async () => {
    const other = await addClass('other')
    await submit(8)
    await submit(8, other)
    const rows = await general({ ahead: 2, others: [other] })
    expect(assignedOf(rows)).toEqual(started(4))
  })
})
