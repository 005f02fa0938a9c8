import { beforeEach } from 'vitest'
import type { TestDatabase } from './database.ts'
import { withoutScanTime } from './scan-time.ts'
import { forgetJobs } from './state/jobs.ts'

/** The worker whose cycles a test makes, and another one that serves the same lane. Each may run four jobs. */
export const WORKER = 7
export const OTHER = 8
export const EPOCH = 3

/** A row of the answer of a cycle. */
export interface CycleRow {
  readonly id: string | null
  readonly seq: string
  readonly class_id: number
  readonly assigned: boolean
  readonly report: object | null
}

/** What a cycle of one lane asks for. */
export interface AskedCycle {
  readonly known?: string
  readonly epoch?: number
  readonly done?: readonly CycleRow[]
  readonly begun?: readonly CycleRow[]
  readonly run?: number
  readonly keep?: number
  readonly free?: number
  /** How many jobs to assign beyond `free`. */
  readonly ahead?: number
  /** Jobs that became ready in the last so many milliseconds may belong to workers that come first; null: none does. */
  readonly fresh?: number | null
  /** Its other classes. The steady cycle only looks whether they have something ready, the general one serves them too. */
  readonly others?: readonly number[]
}

export interface BackEnding {
  readonly ending: string
  readonly delayMs?: number
}

/** What the general cycle can be asked for besides. */
export interface AskedGeneral extends AskedCycle {
  /** How many of each of `others` to assign. Default: as many as `ahead`. */
  readonly othersAhead?: number
  /** A second lane, whose name comes after that of the first: the classes named in `others` are in it. */
  readonly lane?: string
  /** How many jobs it runs in the second lane. Default: none. */
  readonly runElsewhere?: number
  /** It looks at the classes named in `others` only. */
  readonly onlyOthers?: boolean
  /** It looks for jobs of a rank above this one. Default: for all. */
  readonly afterRank?: number
  /** Further lanes of the worker, and how many jobs it runs in each. Their names come last. */
  readonly more?: Readonly<Record<string, number>>
  /** Jobs that have failed for good. */
  readonly failed?: readonly CycleRow[]
  /** Jobs that go back to the queue, each with an ending of `sluice.end_attempts_v1`. */
  readonly back?: readonly (readonly [CycleRow, BackEnding])[]
}

/** Declares the task of the lane as one whose jobs must not run twice. */
export const MUST_NOT_RUN_TWICE = `insert into sluice.tasks (name, lane, class_id, on_lost)
  select c.task, c.lane, c.id, 'fail' from sluice.classes c where c.task = 'steady'`

/** A lane `steady` with four slots, all of them held by the worker, and one class of jobs. */
export function useCycles(database: Pick<TestDatabase, 'sql'>) {
  let classId = 0

  beforeEach(async () => {
    await database.sql('select sluice.notice_generation_v1()')
    await database.sql('select sluice.open_claims_v1()')
    await database.sql(
      `insert into sluice.workers (id, name, host, pid, version, capacity, cores, tasks, generation)
       select id, 'w' || id, 'here', 1, '0', 4, 1, '{steady}', (select g.id from sluice.generation g) from unnest($1::bigint[]) id`,
      [[WORKER, OTHER]],
    )
    await database.sql(`insert into sluice.lanes (name, slots) values ('steady', 4)`)
    await database.sql(
      `insert into sluice.holdings (worker_id, lane, epoch, slots) values ($1, 'steady', $3, 4), ($2, 'steady', 1, 0)`,
      [WORKER, OTHER, EPOCH],
    )
    classId = await addClass('steady')
    return async () => {
      await database.sql(`select sluice.recall_assigned_v1($1, '[]')`, [WORKER])
      await database.sql(
        `update sluice.jobs set state = 'cancelled', finished_at = now(), error = 'x' where state < 'completed'`,
      )
      await forgetJobs(database.sql)
      await database.sql('delete from sluice.holdings')
      await database.sql(`delete from sluice.tasks where lane in ('steady', 'tail')`)
      await database.sql(`delete from sluice.classes where lane in ('steady', 'tail')`)
      await database.sql(`delete from sluice.lanes where name in ('steady', 'tail')`)
      await database.sql('delete from sluice.workers')
    }
  })

  async function addClass(task: string, lane = 'steady'): Promise<number> {
    const [row] = await database.sql<{ id: number }>(
      'insert into sluice.classes (lane, task) values ($1, $2) returning id',
      [lane, task],
    )
    return row!.id
  }

  const idsOf = (rows: readonly CycleRow[] | undefined) => rows?.map(({ id }) => id) ?? null
  const seqsOf = (rows: readonly CycleRow[] | undefined) => rows?.map(({ seq }) => seq) ?? null

  const endingsOf = ({ failed = [], back = [] }: Pick<AskedGeneral, 'failed' | 'back'>) =>
    [...failed.map((row) => [row, { ending: 'failed', error: 'x' }] as const), ...back].map(
      ([{ id, seq }, ending]) => ({ id: Number(id), seq, ...ending }),
    )

  async function steady(asked: AskedCycle & Pick<AskedGeneral, 'failed' | 'back'> = {}): Promise<CycleRow[]> {
    const { known = '0', epoch = EPOCH, done, begun, run = 0, keep = 4, free = 4, ahead = 0 } = asked
    const { fresh = null, others = [] } = asked
    const endings = endingsOf(asked)
    const rows = await database.sql<CycleRow & Record<string, unknown>>(
      `select id, seq, class_id, assigned, report
         from sluice.steady_cycle_v1($1, $2, $3, $4, $5, null, null, $11, $12, 'steady', $6, $7, $8, $13, $9, -2147483648, 0, $10, false,
                              $14, array_fill(-2147483648, array[cardinality($14::integer[])]), array_fill(0::bigint, array[cardinality($14::integer[])]), $15) order by id`,
      [
        ...[WORKER, epoch, known, idsOf(done), seqsOf(done), run, keep, free, classId, fresh],
        ...[
          idsOf(begun),
          seqsOf(begun),
          ahead,
          others,
          endings.length === 0 ? null : JSON.stringify(endings),
        ],
      ],
    )
    return withoutScanTime(rows)
  }

  /** The same through `sluice.cycle_v1`. */
  async function general(asked: AskedGeneral = {}): Promise<CycleRow[]> {
    const { known = '0', epoch = EPOCH, done, begun, run = 0, keep = 4, free = 4, ahead = 0 } = asked
    const {
      fresh = null,
      others = [],
      othersAhead = ahead,
      lane,
      runElsewhere = 0,
      more = {},
      onlyOthers = false,
      afterRank = -2_147_483_648,
    } = asked
    const endings = endingsOf(asked)
    const lanes = [...(lane === undefined ? ['steady'] : ['steady', lane]), ...Object.keys(more)]
    const classes = [...(onlyOthers ? [] : [classId]), ...others]
    const each = <T>(value: T) => classes.map(() => value)
    const none = Object.keys(more).map(() => 0)
    const byLane = (own: number, elsewhere = 0, further = none) => [
      ...(lane === undefined ? [own] : [own, elsewhere]),
      ...further,
    ]
    const rows = await database.sql<CycleRow & Record<string, unknown>>(
      `select id, seq, class_id, assigned, report
         from sluice.cycle_v1($1, $2, $3, $4, $5, null, null, $22, $6, $7, $8, $9, $10, $11, $12, $13, 0, $14, $15, $16, $17, $18, $19, $20,
                              false, null, $21, true) order by id`,
      [
        ...[WORKER, epoch, known, idsOf(done), seqsOf(done), idsOf(begun), seqsOf(begun), lanes],
        ...[
          byLane((done?.length ?? 0) + endings.length),
          byLane(run, runElsewhere, Object.values(more)),
          lanes.map(() => free),
          byLane(keep),
          free,
        ],
        ...[
          classes,
          classes.map((id) => (id === classId || lane === undefined ? 1 : 2)),
          each(2_147_483_647),
        ],
        ...[
          classes.map((id) => (id === classId ? ahead : othersAhead)),
          each(afterRank),
          each(0),
          each(fresh ?? 0),
          fresh !== null,
          endings.length === 0 ? null : JSON.stringify(endings),
        ],
      ],
    )
    return withoutScanTime(rows)
  }

  async function submit(count: number, of = classId): Promise<void> {
    await database.sql(
      `insert into sluice.jobs (task, class_id, ready_at)
       select c.task, c.id, now() - interval '1 minute' from sluice.classes c, generate_series(1, $2) where c.id = $1`,
      [of, count],
    )
  }

  return { steady, general, submit, addClass, classId: () => classId }
}
