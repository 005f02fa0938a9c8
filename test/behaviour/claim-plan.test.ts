import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Connection } from '../../src/db/connection.ts'
import type { Statement } from '../../src/db/database.ts'
import { Database } from '../../src/db/database.ts'
import { DUTIES } from '../../src/duties/runner.ts'
import { sluice, task } from '../../src/index.ts'
import type { CycleAnswer } from '../../src/model/assignment.ts'
import { claimDuties } from '../../src/store/claim-duties.ts'
import { expireStartDeadlines } from '../../src/store/expire-start-deadlines.ts'
import { findJobs } from '../../src/store/find-jobs.ts'
import { beat } from '../../src/store/heartbeat.ts'
import { loadEndings } from '../../src/store/load-endings.ts'
import { promoteDue } from '../../src/store/promote-due.ts'
import { pruneHistory } from '../../src/store/prune-history.ts'
import { resyncWorker } from '../../src/store/resync-worker.ts'
import { submitJobs } from '../../src/store/submit-jobs.ts'
import { useDatabase } from '../support/database.ts'
import { SessionByHand } from '../support/session-by-hand.ts'
import { JOB_TABLES } from '../support/state/jobs.ts'

// What a worker's session does, with auto_explain telling the plan of every statement inside the cycle as it was
// really carried out. A plan cached on an empty table must serve a million rows; a plan for a full one must not change.

const database = useDatabase({ direct: true })

interface PlanNode {
  readonly 'Node Type': string
  readonly 'Relation Name'?: string
  readonly 'Index Name'?: string
  readonly 'Actual Rows': number
  readonly 'Actual Loops': number
  readonly 'Rows Removed by Filter'?: number
  readonly Plans?: readonly PlanNode[]
}

/** Rows that the statement before has locked. */
const BY_ROW = 'by row'
/** There are few claims, and none is found by a job: somebody who knows no worker reads them all, or the first. */
const CLAIMS = 'all claims'
/** Of jobs that are named, whatever else a statement is allowed. */
const BY_ID = ['job_data_pkey', 'queue_pkey', 'claims_pkey', 'outcomes_pkey', 'job_keys_job']
const INTO = {
  ready: 'insert into sluice.queue (id, class_id, rank) select id, class_id, -priority',
  running: `insert into sluice.claims (worker_id, seq, class_id, started_at, ids, ready_ats)
            select 1000000 + id % 500, id, class_id, clock_timestamp(), array[id], array[clock_timestamp()]`,
  completed: `insert into sluice.outcomes (id, class_id, state, ready_at) select id, class_id, 'completed', clock_timestamp()`,
}

const client = new pg.Client(database.url)
const plans: PlanNode[] = []
let db: Database
let worker: SessionByHand

beforeAll(async () => {
  const one = task({ name: 'one', lane: 'planned', run: (_: unknown) => null })
  const two = task({ name: 'two', lane: 'planned', run: (_: unknown) => null })
  const app = await sluice({ database: database.url, tasks: [one, two], lanes: { planned: { slots: 50 } } })
  await app.close()
  await client.connect()
  client.on('notice', ({ message = '' }) => {
    const start = message.indexOf('{')
    if (message.startsWith('duration:') && start > 0) plans.push(JSON.parse(message.slice(start)).Plan)
  })
  await client.query(`load 'auto_explain'`)
  for (const [name, value] of [
    ['log_min_duration', '0'],
    ['log_nested_statements', 'on'],
    ['log_analyze', 'on'],
    ['log_timing', 'off'],
    ['log_format', 'json'],
    ['log_level', 'notice'],
  ]) {
    await client.query(`set auto_explain.${name} = '${value}'`)
  }
  db = new Database({ url: database.url, maxConnections: 1, applicationName: 'plans' })
  // Statistics stay as they are until the test says otherwise.
  for (const table of JOB_TABLES.split(', '))
    await database.sql(`alter table ${table} set (autovacuum_enabled = false)`)
})
afterAll(async () => {
  await worker.close('done')
  await client.end()
  await db.close()
})

/** The session of a worker: prepared statements on one connection. */
const session = {
  run: async (statement: Statement, values: readonly unknown[] = []) =>
    (await client.query({ ...statement, values: [...values] })).rows,
  runRaw: async (statement: Statement, values: readonly unknown[]) =>
    (await client.query({ ...statement, values: [...values], rowMode: 'array', types: TEXT })).rows,
} as unknown as Connection
/** As the worker's own connection does it: what is not looked at stays text. */
const TEXT = {
  getTypeParser: (id: number, format: 'text') =>
    id === pg.types.builtins.JSONB || id === pg.types.builtins.TIMESTAMPTZ
      ? (text: string) => text
      : pg.types.getTypeParser(id, format),
} as pg.CustomTypesConfig

test('claims and endings go by the index on a million rows, with plans cached on an empty table', async () => {
  const identity = {
    name: 'planner',
    host: 'h',
    pid: 1,
    version: '0',
    capacity: 0,
    cores: 1,
    tasks: ['one', 'two'],
    labels: {},
  }
  worker = await SessionByHand.open({ db, connection: session, identity })
  await database.sql(`analyze ${JOB_TABLES}`)
  // A function's statements get their lasting plans after five runs.
  await fill(60, 'ready')
  await work(10)
  expect(await waiting()).toBe(0)

  await fill(900_000, 'completed')
  await fill(100_000, 'ready')
  await checkWork('planned on an empty table')
  await database.sql(`analyze ${JOB_TABLES}`)
  await work(10)
  await checkWork('planned on a full one')
}, 120_000)

test('what the duties and waiting programs ask goes by an index as well', async () => {
  await database.sql(
    `update sluice.queue set deadline_at = clock_timestamp() + interval '1 h'
      where id = any (array(select id from sluice.queue where state = 'ready' limit 20000))`,
  )
  await database.sql(
    `update sluice.queue set state = 'scheduled', ready_at = clock_timestamp() + interval '1 h'
      where id = any (array(select id from sluice.queue where state = 'ready' order by id desc limit 20000))`,
  )
  // Tables that are large enough for an index to be worth it.
  await fill(5000, 'running')
  await database.sql(
    `insert into sluice.job_keys (task, key, job_id) select 'other', n::text, -n from generate_series(1, 5000) n`,
  )
  await database.sql(`analyze ${JOB_TABLES}`)
  const ids = await database.sql<{ id: string }>('select min(id) as id from sluice.job_data')
  const questions: [string, () => Promise<unknown>, string[]][] = [
    ['prune', () => pruneHistory(session, '0', 50), []],
    ['promote', () => promoteDue(session, 1000), ['queue_due']],
    ['expire', () => expireStartDeadlines(session, 1000), ['queue_deadline']],
    [
      'duties',
      () => claimDuties(session, DUTIES, 'planner', 3000, 60_000),
      ['queue_due', 'queue_deadline', 'queue_ready', CLAIMS],
    ],
    ['heartbeat', () => beat(session, worker.workerId), []],
    ['resync', () => resyncWorker(session, worker.workerId, []), []],
    ['endings', () => loadEndings(session, [ids[0]!.id, '5', '77']), []],
    ['one job', () => findJobs(session, [ids[0]!.id]), [CLAIMS]],
    [
      'a key',
      () => submitJobs(session, '[{"task": "one", "key": "k", "input": 1}]', 'none'),
      ['job_keys_pkey'],
    ],
  ]
  for (const [name, ask, indexes] of questions) {
    // Often enough for a plan that no longer looks at the values, where there is one.
    for (let n = 0; n < 8; n++) {
      plans.length = 0
      await ask()
    }
    const scans = plans.flatMap(scansOfJobs)
    expect(scans.length, name).toBeGreaterThan(0)
    for (const scan of scans) {
      expect([...indexes, ...BY_ID], name).toContain(indexOf(scan))
      expect(looked(scan), name).toBeLessThanOrEqual(60)
    }
  }
  worker.markOutOfStep()
})

let running: CycleAnswer['assignments'] = []

/** Cycles as a worker makes them: end what runs, take as much again. */
async function work(cycles: number): Promise<void> {
  for (let n = 0; n < cycles; n++) {
    const ended = running.map(({ id, attempt }, i) => ({
      id,
      attempt,
      ending:
        i % 5 === 0
          ? ({ kind: 'failed', error: 'planned' } as const)
          : ({ kind: 'completed', result: '{"n": 1}' } as const),
    }))
    const answer = await worker.cycle(ended, 20, 0)
    expect(answer).toMatchObject({ lost: [], refused: [] })
    running = answer.assignments
  }
}

async function checkWork(when: string): Promise<void> {
  plans.length = 0
  const before = await waiting()
  await work(5)
  expect(before - (await waiting()), when).toBe(100)
  const scans = plans.flatMap(scansOfJobs)
  expect(scans.length, when).toBeGreaterThan(10)
  for (const scan of scans) {
    expect(['queue_ready', BY_ROW, ...BY_ID], when).toContain(indexOf(scan))
    // Nothing is looked at that is not taken.
    expect(looked(scan), when).toBeLessThanOrEqual(60)
  }
  expect(
    scans.some((scan) => scan['Index Name'] === 'queue_ready'),
    when,
  ).toBe(true)
}

/** The index a scan goes by; a bitmap has it in the node below. `undefined`: the whole table is read. */
function indexOf(scan: PlanNode): string | undefined {
  if (scan['Node Type'] === 'Tid Scan') return BY_ROW
  if (scan['Node Type'] === 'Seq Scan' && scan['Relation Name'] === 'claims') return CLAIMS
  return (scan['Node Type'] === 'Bitmap Heap Scan' ? scan.Plans?.[0] : scan)?.['Index Name']
}

/** Rows a scan touched, taken or not. */
function looked(scan: PlanNode): number {
  return (scan['Actual Rows'] + (scan['Rows Removed by Filter'] ?? 0)) * scan['Actual Loops']
}

function scansOfJobs(node: PlanNode): PlanNode[] {
  const isOfJobs = JOB_TABLES.split(', ').includes(`sluice.${node['Relation Name']}`)
  const own = isOfJobs && node['Node Type'] !== 'ModifyTable' ? [node] : []
  return [...own, ...(node.Plans ?? []).flatMap(scansOfJobs)]
}

async function fill(count: number, state: keyof typeof INTO): Promise<void> {
  await database.sql(
    `with data as (
       insert into sluice.job_data (task, class_id, priority)
       select t.name, t.class_id, n % 3
         from generate_series(1, $1::integer) n join sluice.tasks t on t.name = case n % 2 when 0 then 'one' else 'two' end
       returning id, class_id, priority
     )
     ${INTO[state]} from data`,
    [count],
  )
}

async function waiting(): Promise<number> {
  const rows = await database.sql<{ n: number }>(
    `select count(*)::integer as n from sluice.queue where state = 'ready'`,
  )
  return rows[0]!.n
}

test('functions that rule out ways of reading also rule out JIT: before PostgreSQL 18 what is left looks so costly that it would compile', async () => {
  const functions = await database.sql<{ name: string; config: string[] }>(
    `select proname as name, proconfig as config from pg_proc
      where pronamespace = 'sluice'::regnamespace and 'enable_seqscan=off' = any (proconfig)`,
  )
  expect(functions.length).toBeGreaterThan(10)
  expect(functions.filter(({ config }) => !config.includes('jit=off'))).toEqual([])
})
