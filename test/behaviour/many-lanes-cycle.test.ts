import { afterEach, beforeEach, expect, test } from 'vitest'
import { useDatabase } from '../support/database.ts'
import { withoutScanTime } from '../support/scan-time.ts'
import {
  type ManyLanes,
  plantFullLanes,
  plantManyLanes,
  removeManyLanes,
} from '../support/state/many-lanes.ts'
import { useCommitChecker } from '../support/watched-commits.ts'

// With more than 8 lanes, a cycle locks only the holdings that it needs. With more than 64 classes, it goes through the queue from one ready class to
// the next and looks at 64 of them at a time. These tests count what a cycle reads and writes, because times would depend on the machine.

const database = useDatabase()
useCommitChecker(database)

const AT_ONCE = 64
const ascending = (numbers: readonly number[]) => numbers.toSorted((a, b) => a - b)

let planted: ManyLanes

beforeEach(async () => {
  await database.sql('select sluice.notice_generation_v1()')
  await database.sql('select sluice.open_claims_v1()')
})
afterEach(() => removeManyLanes(database.sql))

async function plant(count: number): Promise<ManyLanes> {
  planted = await plantManyLanes(database.sql, count, 5)
  return planted
}

/** Submits one job of each of these classes. */
async function submit(...classes: readonly number[]): Promise<void> {
  await database.sql(
    `insert into sluice.jobs (task, class_id, ready_at)
     select c.task, c.id, now() - interval '1 minute' from sluice.classes c where c.id = any ($1)`,
    [classes],
  )
}

interface Row extends Record<string, unknown> {
  readonly seq: string | null
  readonly class_id: number | null
  readonly report: object | null
}
interface Asked {
  readonly epoch?: number
  /** The jobs that the worker runs. */
  readonly runs?: readonly Row[]
  readonly turn?: number
  readonly free?: number
  /** A lane in which a job has ended. The worker does not hold that job, which is found out once the holdings are locked. */
  readonly endedIn?: string
}

async function cycle(asked: Asked = {}): Promise<Row[]> {
  const { worker, lanes, classes } = planted
  const { epoch = planted.epoch, runs = [], turn = 0, free = 1000, endedIn } = asked
  const known = runs.reduce((newest, { seq }) => (BigInt(seq!) > newest ? BigInt(seq!) : newest), 0n)
  const endings = [{ id: 1, seq: 1, ending: 'failed', error: 'x' }]
  const rows = await database.sql<Row>(
    `with each as materialized (
       select array_agg(0) as none, array_agg(2147483647) as most, array_agg(-2147483648) as top, array_agg(0::bigint) as first,
              array_agg($7::integer) as want, array_agg(ord::integer) as lane, array_agg(case when name = $5 then 1 else 0 end) as ended,
              array_agg((id = any ($10))::integer) as run
         from unnest($4::text[], $6::integer[]) with ordinality l(name, id, ord))
     select c.seq, c.class_id, c.report
       from each e, sluice.cycle_v1($1, $2, $9, null, null, null, null, $3, null, null, $4, e.ended, e.run, e.want, e.none,
                                    $7, $8, $6, e.lane, e.most, e.none, e.top, e.first, e.none, false, null, false, true) c`,
    [
      ...[worker, epoch, endedIn === undefined ? null : JSON.stringify(endings), lanes, endedIn ?? ''],
      ...[classes, free, turn, known, classesOf(runs)],
    ],
  )
  return withoutScanTime(rows)
}

const classesOf = (rows: readonly Row[]) => rows.map(({ class_id }) => class_id)
const dropHolding = (lane: string) =>
  database.sql('delete from sluice.holdings where worker_id = $1 and lane = $2', [planted.worker, lane])

test('a cycle that needs one lane costs the same with 1,000 lanes as with 200', async () => {
  const costs: object[] = []
  for (const count of [200, 1000]) {
    const { lanes, classes } = await plant(count)
    await submit(classes[117]!)
    const { rows, touched, cost } = await measure()
    expect(classesOf(rows)).toEqual([classes[117]])
    // The first lane is always locked.
    expect(touched).toEqual([lanes[0], lanes[117]])
    costs.push(cost)
    await removeManyLanes(database.sql)
  }
  expect(costs[0]).toMatchObject({ 'queue searched': expect.any(Number), 'holdings written': 1 })
  expect(costs[1]).toEqual(costs[0])
})

test('a cycle that finds nothing ready touches no holding', async () => {
  await plant(200)
  expect(await measure()).toMatchObject({ rows: [], touched: [] })
})

/** One cycle, the lanes whose holdings it locked or wrote, and its cost in each table. */
async function measure(): Promise<{ rows: Row[]; touched: string[]; cost: object }> {
  await database.sql('begin')
  try {
    const before = await counters()
    const rows = await cycle()
    const after = await counters()
    const touched = await database.sql<{ lane: string }>(
      `select h.lane from sluice.holdings h
        where pg_current_xact_id()::text::bigint % 4294967296 in (h.xmin::text::bigint, h.xmax::text::bigint) order by h.lane`,
    )
    const cost = Object.fromEntries(after.map(({ name, n }, at) => [name, n - before[at]!.n]))
    return { rows, touched: touched.map(({ lane }) => lane), cost }
  } finally {
    await database.sql('commit')
  }
}

/** How often this session has searched each table of Sluice, and how many rows it has written. */
function counters(): Promise<{ name: string; n: number }[]> {
  return database.sql(
    `select s.relname || ' ' || c.what as name, c.n::integer as n
       from pg_stat_xact_user_tables s
      cross join lateral (values ('searched', coalesce(s.seq_scan, 0) + coalesce(s.idx_scan, 0)),
                                 ('written', s.n_tup_ins + s.n_tup_upd + s.n_tup_del)) c(what, n)
      where s.schemaname = 'sluice' order by 1`,
  )
}

test('gives back the idle slots of lanes that it does not need', async () => {
  const { lanes, classes } = await plant(70)
  await database.sql('update sluice.holdings set slots = 3 where lane = any ($1)', [[lanes[20], lanes[69]]])
  await submit(classes[5]!)
  await cycle()
  expect(await database.sql('select lane, slots from sluice.holdings where slots > 0')).toEqual([
    { lane: lanes[5], slots: 1 },
  ])
})

test('stops asking for slots of a lane that it does not need', async () => {
  const { lanes, classes } = await plant(70)
  await database.sql('update sluice.holdings set wants = true, asked_at = now() where lane = $1', [lanes[33]])
  await submit(classes[5]!)
  await cycle()
  expect(await database.sql('select lane from sluice.holdings where wants')).toEqual([])
})

test.each<[what: string, lane: number, asked: (lanes: readonly string[]) => Asked]>([
  ['a lane with a ready job', 10, () => ({})],
  ['a lane in which a job has ended', 50, (lanes) => ({ endedIn: lanes[50]! })],
  ['its first lane', 0, () => ({})],
])('is refused when the worker has lost the holding of %s', async (_, lane, asked) => {
  const { lanes, classes } = await plant(70)
  await submit(classes[10]!, classes[60]!)
  await dropHolding(lanes[lane]!)
  await expect(cycle(asked(lanes))).rejects.toMatchObject({ code: 'SL001' })
  expect(await database.sql('select 1 from sluice.claims')).toEqual([])
})

test('is refused when it names an older epoch', async () => {
  const { classes, epoch } = await plant(70)
  await submit(classes[10]!)
  await expect(cycle({ epoch: epoch - 1 })).rejects.toMatchObject({ code: 'SL001' })
  expect(await database.sql('select 1 from sluice.claims')).toEqual([])
})

test('works without the holding of a lane that it does not need', async () => {
  const { lanes, classes } = await plant(70)
  await submit(classes[10]!)
  await dropHolding(lanes[50]!)
  expect(classesOf(await cycle())).toEqual([classes[10]])
})

/** The lanes that the worker asks for slots of. */
async function askedLanes(): Promise<string[]> {
  const rows = await database.sql<{ lane: string }>(
    'select lane from sluice.holdings where wants and worker_id = $1 order by lane',
    [planted.worker],
  )
  return rows.map(({ lane }) => lane)
}

test('keeps asking for slots of full lanes that it leaves out', async () => {
  const { lanes, classes } = await plant(100)
  await plantFullLanes(database.sql, lanes)
  await submit(...classes)
  await cycle()
  expect(await askedLanes()).toHaveLength(AT_ONCE)
  await cycle({ turn: 1 })
  expect(await askedLanes()).toEqual(lanes)
  // A new request would be announced to all workers.
  expect(await measure()).toMatchObject({ cost: { 'holdings written': 0 } })
})

test('stops asking for slots of lanes that it leaves out when they have no ready jobs', async () => {
  const { lanes, classes } = await plant(100)
  await plantFullLanes(database.sql, lanes)
  await submit(...classes)
  await cycle()
  await cycle({ turn: 1 })
  const gone = new Set([...classes.slice(0, 10), ...classes.slice(60, 70)])
  await database.sql(
    `update sluice.jobs set state = 'cancelled', finished_at = now(), error = 'x' where class_id = any ($1)`,
    [[...gone]],
  )
  await cycle()
  expect(await askedLanes()).toEqual(lanes.filter((_, at) => !gone.has(classes[at]!)))
})

test('stops asking for slots of lanes that it leaves out when it can take no more jobs', async () => {
  const { lanes, classes } = await plant(100)
  await plantFullLanes(database.sql, lanes)
  await submit(...classes)
  await cycle()
  await cycle({ turn: 1 })
  await database.sql('delete from sluice.holdings where worker_id <> $1', [planted.worker])
  await cycle({ free: 10 })
  expect(await askedLanes()).toEqual([])
})

test('stops asking for slots of lanes in which it has reached its own limit', async () => {
  const { lanes, classes } = await plant(100)
  await plantFullLanes(database.sql, lanes)
  await submit(...classes)
  await submit(...classes)
  await cycle()
  await database.sql('delete from sluice.holdings where worker_id <> $1', [planted.worker])
  await database.sql('update sluice.lanes set per_worker = 1 where name = any ($1)', [lanes])
  expect(await cycle()).toHaveLength(AT_ONCE + 1)
  expect(await askedLanes()).toEqual([])
})

test('does not ask for slots of lanes that it leaves out and has enough slots of', async () => {
  const { classes } = await plant(100)
  await database.sql('update sluice.holdings set slots = 1 where worker_id = $1', [planted.worker])
  await submit(...classes)
  await cycle()
  expect(await askedLanes()).toEqual([])
})

/** What a cycle may do with a class: how many jobs it may take, and the position of the lane, if the cycle is about that lane. */
interface Use {
  readonly most: number
  readonly lane: number | null
}

/** The classes with ready jobs that a cycle with this turn looks at. */
async function readyClasses(turn: number, use = (at: number): Use => ({ most: 1, lane: at + 1 })) {
  const { classes } = planted
  const uses = classes.map((_, at) => use(at))
  const [row] = await database.sql<{ found: number[] }>(
    `with each as materialized (
       select array_agg(-2147483648) as top, array_agg(0::bigint) as first, array_agg(0) as fresh from unnest($1::integer[]))
     select array(select c.id from unnest(sluice.ready_classes_v1(clock_timestamp(), $1, $2, $3, e.top, e.first, e.fresh, $4)) c) as found from each e`,
    [classes, uses.map(({ lane }) => lane), uses.map(({ most }) => most), turn],
  )
  return row!.found
}

test('finds each ready class once, wherever the search begins, and no class that the worker does not serve', async () => {
  const { classes, others } = await plant(130)
  const ready = [classes[3]!, classes[70]!, classes[129]!]
  await submit(...ready, ...others)
  for (let turn = 0; turn < 130; turn++) expect(ascending(await readyClasses(turn))).toEqual(ascending(ready))
})

test('finds no class when nothing is ready', async () => {
  await plant(130)
  expect(await readyClasses(1)).toEqual([])
})

test.each([128, 130, 200])(
  'looks at 64 of %i classes at a time, and at all of them in a round of cycles',
  async (count) => {
    const { classes } = await plant(count)
    await submit(...classes)
    for (let first = 0; first < 3; first++) {
      const seen = new Set<number>()
      for (let turn = first; turn < first + Math.ceil(count / AT_ONCE); turn++) {
        const some = await readyClasses(turn)
        expect([some.length, new Set(some).size]).toEqual([AT_ONCE, AT_ONCE])
        for (const each of some) seen.add(each)
      }
      expect(seen.size).toBe(count)
    }
  },
)

test.for<[what: string, count: number, unusable: (at: number) => Use]>([
  ['of which it may take no jobs', 60, (at) => ({ most: 0, lane: at + 1 })],
  ['of which it may take no jobs', 130, (at) => ({ most: 0, lane: at + 1 })],
  ['in lanes that it does not need', 60, () => ({ most: 1, lane: null })],
  ['in lanes that it does not need', 130, () => ({ most: 1, lane: null })],
])('does not count classes %s, of %i', async ([, count, unusable]) => {
  const { classes } = await plant(count)
  await submit(...classes)
  const usable = new Set(classes.filter((_, at) => at % 2 === 0))
  const found = await readyClasses(0, (at) => (at % 2 === 0 ? { most: 1, lane: at + 1 } : unusable(at)))
  expect(found).toHaveLength(Math.min(usable.size, AT_ONCE))
  expect(found.every((id) => usable.has(id))).toBe(true)
})

test('reports that it left out classes when it can take more jobs', async () => {
  const { classes } = await plant(100)
  // The class just before the one that the search begins with has no ready job.
  await submit(...ascending(classes).slice(0, -1))
  const rows = await cycle()
  expect(rows).toHaveLength(AT_ONCE + 1)
  expect(rows.at(-1)).toMatchObject({ class_id: null, report: { more: true } })
  const runs = rows.slice(0, -1)
  const rest = await cycle({ turn: 1, runs })
  expect(new Set(classesOf([...runs, ...rest]))).toEqual(new Set(ascending(classes).slice(0, -1)))
})

test('does not report that it left out classes when it can take no more jobs', async () => {
  const { classes } = await plant(100)
  await submit(...classes)
  const rows = await cycle({ free: AT_ONCE })
  expect(rows.map(({ report }) => report)).toEqual(Array(AT_ONCE).fill(null))
})

test('reports nothing when it has looked at all of 64 classes', async () => {
  const { classes } = await plant(64)
  await submit(...classes)
  expect((await cycle()).map(({ report }) => report)).toEqual(Array(64).fill(null))
})
