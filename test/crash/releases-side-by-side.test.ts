import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import { afterAll, beforeAll, beforeEach, expect, onTestFinished, test } from 'vitest'
import { loadMigrations } from '../../src/db/migrate.ts'
import { type Sluice, sluice, task } from '../../src/index.ts'
import { createDatabase, type TestDatabase } from '../support/database.ts'
import { followJournal } from '../support/journal.ts'
import { Release, replaced } from '../support/releases.ts'
import { until, untilNoneLeft } from '../support/until.ts'
import { WatchedCommits } from '../support/watched-commits.ts'
import { HEARTBEAT_MS, startWorker, type WorkerProcess } from '../support/worker-process.ts'

const VERSION = (await loadMigrations()).at(-1)!.version
/** A heartbeat waits while an upgrade holds the table of workers, and must not be missed for it. */
const LEASES = { heartbeat: 5 * HEARTBEAT_MS, stale: 50 * HEARTBEAT_MS } as const
/** What each side has to do while both are there, and how many of these jobs are assigned ahead of its slots. */
const JOBS_OF_EACH = 100
const ASSIGNED_OF_EACH = 20
const CAPACITY = 2
/** A slot for each job that four workers can run, because jobs are assigned only where nobody waits for slots; and fewer, for which they compete. */
const SLOTS = 4 * CAPACITY
const FEW_SLOTS = 3
const lanes = { load: { slots: SLOTS, poll: 200 } }
/** Below 20 ms, so that jobs are assigned ahead; and not 0, so that the load leaves processor time to programs that start. */
const SHORT_MS = 5
/** So many jobs are submitted at a time, whenever fewer have not ended. */
const BATCH = 100

let next: Release
let afterNext: Release
let database: TestDatabase & { drop(): Promise<void> }
let commits: WatchedCommits

beforeAll(async () => {
  next = await makeNext()
  afterNext = await makeAfterNext(next)
})
afterAll(() => Promise.all([next.delete(), afterNext.delete()]))
beforeEach(async () => {
  database = await createDatabase({ asMigrated: true })
  commits = await WatchedCommits.open(database.directUrl)
  return async () => {
    await commits.close()
    await database.drop()
  }
})

/**
 * The next release. Heartbeats and cycles carry the release and are other functions: heartbeat_v2, cycle_v2 and steady_cycle_v2. The types that the parts
 * of a cycle hand on have one field more, so that these parts are other functions too. What workers of this release call stays: heartbeat_v1 with another body,
 * the others as they are. All other functions, triggers and views are created again too, most with another text.
 */
async function makeNext(): Promise<Release> {
  const release = await Release.after()
  await addCycle(release)
  for (const path of await release.list('sql/functions')) {
    const sql = await release.read(path)
    await release.write(
      path,
      `${sql.replace(/\bas \$\$\n/, (start) => `${start}-- Changed.\n`)}-- Changed.\n`,
    )
  }
  await changeHeartbeat(release)
  await release.write(
    `sql/migrations/${fourDigits(VERSION + 1)}_release.sql`,
    `alter table sluice.workers add column release integer;
     alter table sluice.holdings add column release integer, add column steady_release integer;
     ${await typesWithRelease(release)}`,
  )
  return release
}

async function changeHeartbeat(release: Release): Promise<void> {
  const v1 = await release.read('sql/functions/workers/heartbeat_v1.sql')
  const withRelease = replaced(v1, 'p_worker bigint,', 'p_worker bigint, p_release integer,')
  const v2 = replaced(
    withRelease,
    'set seen_at = clock_timestamp(),',
    'set seen_at = clock_timestamp(), release = p_release,',
  )
  await release.write('sql/functions/workers/heartbeat_v2.sql', replaced(v2, 'heartbeat_v1', 'heartbeat_v2'))
  const body = v1.slice(v1.indexOf('language plpgsql'))
  await release.write(
    'sql/functions/workers/heartbeat_v1.sql',
    replaced(
      v1,
      body,
      'language sql as $$ select * from sluice.heartbeat_v2(p_worker, null, p_blocked_ms, p_blocking) $$;\n',
    ),
  )
  const beat = await release.read('dist/store/heartbeat.js')
  await release.write(
    'dist/store/heartbeat.js',
    replaced(beat, 'sluice.heartbeat_v1($1, $2, $3)', `sluice.heartbeat_v2($1, ${VERSION + 1}, $2, $3)`),
  )
}

/** What changes with the types of a cycle: the functions that use one of them, and steady_cycle_v1. */
async function cycleFiles(release: Release): Promise<readonly string[]> {
  const paths = await release.list('sql/functions')
  const texts = await Promise.all(paths.map((path) => release.read(path)))
  return paths.filter(
    (path, n) => path.endsWith('/steady_cycle_v1.sql') || /\bcycle_(lane|class)_v1\b/.test(texts[n]!),
  )
}

/** A `_v2` of each, beside its `_v1`. The new field of a lane goes from cycle_v2 through the parts of the cycle into the holding. */
async function addCycle(release: Release): Promise<void> {
  const paths = await cycleFiles(release)
  const names = [...paths.map(nameOf), 'cycle_lane_v1', 'cycle_class_v1']
  for (const path of paths) {
    const changed = (CYCLE_CHANGES[nameOf(path)] ?? []).reduce(
      (sql, [from, to]) => replaced(sql, from, to),
      await release.read(path),
    )
    // A class has its new field in front.
    const withField = changed.replaceAll(
      /\brow\((.*)\)::sluice\.cycle_class_v1/g,
      'row(null, $1)::sluice.cycle_class_v1',
    )
    const sql = names.reduce(
      (text, name) => text.replaceAll(`sluice.${name}`, `sluice.${v2(name)}`),
      withField,
    )
    await release.write(v2(path), sql)
  }
  const runCycle = await release.read('dist/store/run-cycle.js')
  const calls = ['cycle', 'steady_cycle'].reduce(
    (text, name) => replaced(text, `sluice.${name}_v1($1, `, `sluice.${name}_v2($1, ${VERSION + 1}, `),
    runCycle,
  )
  await release.write('dist/store/run-cycle.js', calls)
}

const CYCLE_CHANGES: Readonly<Record<string, readonly (readonly [string, string])[]>> = {
  cycle_v1: [
    ['p_worker bigint, p_epoch integer,', 'p_worker bigint, p_release integer, p_epoch integer,'],
    ['p_want, p_keep, v_ready)', 'p_want, p_keep, v_ready, p_release)'],
  ],
  hold_lanes_v1: [
    ['p_ready sluice.cycle_class_v1[])', 'p_ready sluice.cycle_class_v1[], p_release integer)'],
    ['row(h.lane,', 'row(p_release, h.lane,'],
  ],
  save_holdings_v1: [['set slots = v_lane.slots,', 'set slots = v_lane.slots, release = v_lane.release,']],
  steady_cycle_v1: [
    ['p_worker bigint, p_epoch integer,', 'p_worker bigint, p_release integer, p_epoch integer,'],
    ['as has_asked into v_held', 'as has_asked, h.steady_release into v_held'],
    [
      'if v_held.slots > v_slots then\n    update sluice.holdings h set slots = v_slots',
      `if v_held.slots > v_slots or v_held.steady_release is distinct from p_release then
    update sluice.holdings h set slots = least(v_held.slots, v_slots), steady_release = p_release`,
    ],
  ],
}

/** The types as a migration of this release creates them, under their new names, with a field more in front. */
async function typesWithRelease(release: Release): Promise<string> {
  const [first] = (await release.list('sql/migrations')).sort()
  const types = (await release.read(first!)).match(/^create type sluice\.cycle_\w+ as \($.*?^\);$/gms) ?? []
  expect(types).toHaveLength(2)
  return types.map((text) => replaced(text, '_v1 as (\n', '_v2 as (\n  release integer,\n')).join('\n')
}

/** The one after it drops what workers of this release call: heartbeat_v1, and the functions and types of its cycle. */
async function makeAfterNext(earlier: Release): Promise<Release> {
  const release = await Release.after(earlier)
  const paths = ['sql/functions/workers/heartbeat_v1.sql', ...(await cycleFiles(release))]
  for (const path of paths) await release.remove(path)
  await release.write(
    `sql/migrations/${fourDigits(VERSION + 2)}_drop_v1.sql`,
    `-- compatible since ${VERSION + 1}
${paths.map((path) => `drop function if exists sluice.${nameOf(path)};`).join('\n')}
drop type sluice.cycle_lane_v1, sluice.cycle_class_v1;
`,
  )
  return release
}

function nameOf(path: string): string {
  return basename(path, '.sql')
}

function v2(name: string): string {
  return replaced(name, '_v1', '_v2')
}

function fourDigits(version: number): string {
  return String(version).padStart(4, '0')
}

test('workers go on while the next release upgrades the schema under load and works beside them', async () => {
  const old = await Promise.all([start('old-1'), start('old-2')])
  const load = await startLoad()
  await load.untilEachDid(old, JOBS_OF_EACH)
  await load.untilEachWasAssigned(old)

  const young = await Promise.all([start('new-1', next), start('new-2', next)])
  expect(await versions()).toEqual({ version: VERSION + 1, compatibleSince: 1 })
  await load.untilEachDid([...old, ...young], JOBS_OF_EACH)
  await load.untilEachWasAssigned([...old, ...young])
  await load.compete()

  await load.expectEachDoneOnce([...old, ...young])
  await untilReported({ 'new-1': VERSION + 1, 'new-2': VERSION + 1, 'old-1': null, 'old-2': null })
  await closeWithoutComplaint([...old, ...young])
})

test('workers start on a schema that the next release has upgraded, leave it alone and work beside it under load', async () => {
  const young = await Promise.all([start('new-1', next), start('new-2', next)])
  const before = await applied()
  const load = await startLoad()
  await load.untilEachDid(young, JOBS_OF_EACH)
  await load.untilEachWasAssigned(young)

  const old = await Promise.all([start('old-1'), start('old-2')])
  await load.untilEachDid([...old, ...young], JOBS_OF_EACH)
  await load.untilEachWasAssigned([...old, ...young])
  await load.compete()

  await load.expectEachDoneOnce([...old, ...young])
  await untilReported({ 'new-1': VERSION + 1, 'new-2': VERSION + 1, 'old-1': null, 'old-2': null })
  expect(await applied()).toEqual(before)
  for (const worker of old)
    expect(
      worker.hasLogged(`the schema is at version ${VERSION + 1}, newer than this program's ${VERSION}`),
    ).toBe(true)
  await closeWithoutComplaint([...old, ...young])
})

test('a release that drops a function works beside the one before it, and refuses the one before that', async () => {
  const newest = await start('newest', afterNext)
  const load = await startLoad()
  const before = await applied()
  expect(await versions()).toEqual({ version: VERSION + 2, compatibleSince: VERSION + 1 })

  const refused = await start('old').catch((error: Error) => error.message)
  expect(refused).toContain(
    `the schema is at version ${VERSION + 2}, which supports programs from version ${VERSION + 1} on; this program has version ${VERSION}. Upgrade this program`,
  )
  expect(refused).toContain(`code: 'DATABASE_UNSUITABLE'`)

  const young = await start('new', next)
  await load.untilEachDid([newest, young], JOBS_OF_EACH)
  await load.untilEachWasAssigned([newest, young])
  await load.expectEachDoneOnce([newest, young])
  await untilReported({ new: VERSION + 1, newest: VERSION + 1 })
  expect(await applied()).toEqual(before)
  await closeWithoutComplaint([newest, young])
})

/** A worker of this release, or of another one. */
function start(name: string, release?: Release): Promise<WorkerProcess> {
  return startWorker({
    options: { database: database.url, lanes, ...LEASES },
    work: { name, capacity: CAPACITY },
    tasks: { act: { lane: 'load' } },
    ...(release !== undefined && { program: release.worker }),
  })
}

async function closeWithoutComplaint(workers: readonly WorkerProcess[]): Promise<void> {
  await Promise.all(workers.map((worker) => worker.close()))
  for (const { messages, stderr } of workers) {
    const complaints = messages.filter(
      // The load is more than the workers can take.
      (each) =>
        each.kind === 'log' && /warn|error/.test(each.level) && each.message !== 'jobs wait for capacity',
    )
    expect([...complaints, stderr]).toEqual([''])
  }
  expect(await database.sql('select * from sluice.recoveries')).toEqual([])
}

/** Which release each worker has told since the upgrade, in a heartbeat and in both kinds of cycles: those of this one tell none. */
async function untilReported(releases: Readonly<Record<string, number | null>>): Promise<void> {
  const expected = Object.entries(releases).map(([name, release]) => ({
    ...{ name, release, cycle: release, steady: release },
  }))
  await until(async () => {
    const rows = await database.sql(
      `select w.name, w.release, h.release as cycle, h.steady_release as steady
         from sluice.workers w join sluice.holdings h on h.worker_id = w.id and h.lane = 'load'
        where w.seen_at > w.started_at and w.seen_at > (select max(applied_at) from sluice.migrations) order by w.name`,
    )
    return isDeepStrictEqual(rows, expected)
  }, 'every worker to send heartbeats and cycles in its own way')
}

async function versions() {
  const [row] = await database.sql<{ version: number; compatibleSince: number }>(
    'select max(version) as version, max(compatible_since) as "compatibleSince" from sluice.migrations',
  )
  return row
}

/** The records of what was applied, and what the functions, triggers and views are. */
function applied(): Promise<unknown[]> {
  return database.sql(
    `select 'record' as kind, name, hash as text, xmin::text from sluice.functions
     union all select 'migration', name, version::text, xmin::text from sluice.migrations
     union all select 'function', oid::regprocedure::text, md5(prosrc), xmin::text from pg_proc where pronamespace = 'sluice'::regnamespace
     union all select 'trigger', tgname, md5(pg_get_triggerdef(oid)), xmin::text from pg_trigger where not tgisinternal
     union all select 'view', viewname, md5(definition), null from pg_views where schemaname = 'sluice'
     order by 1, 2, 3`,
  )
}

/** Submits short jobs, some dozens ahead of the workers, until it is asked whether each was done once. Every commit is judged. */
async function startLoad() {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-load-'))
  const path = join(folder, 'journal')
  const journal = followJournal(path)
  // Added up as they come: it is asked often.
  const endedIn = new Map<number, number>()
  let read = 0
  const countEnded = (pid?: number) => {
    const lines = journal.lines()
    for (; read < lines.length; read++) {
      const line = lines[read]!
      if (line.what === 'end') endedIn.set(line.pid, (endedIn.get(line.pid) ?? 0) + 1)
    }
    return pid === undefined
      ? [...endedIn.values()].reduce((sum, each) => sum + each, 0)
      : (endedIn.get(pid) ?? 0)
  }
  const submitted = new Set<string>()
  let stopped = false
  const submit = async () => {
    for (const { id } of await database.sql<{ id: string }>(
      `select sluice.submit('act', $1) as id from generate_series(1, ${BATCH})`,
      [JSON.stringify({ journal: path, sleepMs: SHORT_MS })],
    ))
      submitted.add(id)
  }
  const submitting = (async () => {
    while (!stopped) {
      await submit()
      await until(() => stopped || submitted.size - countEnded() < BATCH, 'jobs to end')
    }
  })()
  submitting.catch(() => {}) // Awaited later.
  onTestFinished(async () => {
    stopped = true
    await submitting.catch(() => {})
    journal.close()
    await rm(folder, { recursive: true })
  })

  return {
    /** Each of them, from now on. */
    async untilEachDid(workers: readonly WorkerProcess[], jobs: number): Promise<void> {
      const before = workers.map(({ pid }) => countEnded(pid))
      await until(
        () => workers.every(({ pid }, n) => countEnded(pid) >= before[n]! + jobs),
        `each worker to do ${jobs} jobs`,
      )
    },

    /** Ahead of its slots, from now on. */
    async untilEachWasAssigned(workers: readonly WorkerProcess[]): Promise<void> {
      const left = new Set(workers.map(({ pid }) => pid))
      await until(async () => {
        for (const pid of await assignedPids()) left.delete(pid)
        return left.size === 0
      }, 'each worker to be assigned jobs')
    },

    /** Gives the workers fewer slots than they ask for. */
    async compete(): Promise<void> {
      const app = await operator()
      await app.setLane('load', { slots: FEW_SLOTS })
      await until(async () => (await heldSlots()) === FEW_SLOTS, `${FEW_SLOTS} slots to be held`)
      const before = countEnded()
      // Not each: those that find work keep their slots.
      await until(() => countEnded() >= before + JOBS_OF_EACH, `${JOBS_OF_EACH} jobs to be done`)
      await app.setLane('load', { slots: SLOTS })
    },

    async expectEachDoneOnce(workers: readonly WorkerProcess[]): Promise<void> {
      stopped = true
      await submitting
      await untilNoneLeft(async () => {
        const [row] = await database.sql<{ left: number }>(
          `select count(*)::integer as left from sluice.jobs where state < 'completed'`,
        )
        return row!.left
      }, 'every job to end')
      const ended = await database.sql<{ id: string }>(
        `select id from sluice.jobs where state = 'completed' and attempt = 1`,
      )
      const lines = journal.lines()
      for (const ids of [
        ended.map(({ id }) => id),
        lines.filter(({ what }) => what === 'start').map(({ job }) => job),
        lines.filter(({ what }) => what === 'end').map(({ job }) => job),
      ]) {
        expect(ids).toHaveLength(submitted.size)
        expect(new Set(ids)).toEqual(submitted)
      }
      const { violations, seen, prefetch } = await commits.catchUp()
      expect(violations.slice(0, 10), 'promises broken by a commit').toEqual([])
      expect(seen.growths).toBeGreaterThan(0)
      for (const id of await Promise.all(workers.map(idOf)))
        expect(prefetch.assignedTo.get(id), `jobs assigned to worker ${id}`).toBeGreaterThan(ASSIGNED_OF_EACH)
      expect(prefetch.seen.starts).toBeGreaterThan(0)
      console.log(JSON.stringify({ jobs: submitted.size, seen, prefetch: prefetch.seen }))
    },
  }
}

/** Somebody at work with a program of this release. */
async function operator(): Promise<Sluice> {
  const act = task({ name: 'act', lane: 'load', run: () => null })
  const app = await sluice({ database: database.url, lanes, ...LEASES, tasks: [act], migrate: false })
  onTestFinished(() => app.close())
  return app
}

async function idOf({ pid }: WorkerProcess): Promise<string> {
  const [row] = await database.sql<{ id: string }>('select id from sluice.workers where pid = $1', [pid])
  return row!.id
}

/** The processes of workers that jobs are assigned to. */
async function assignedPids(): Promise<readonly number[]> {
  const rows = await database.sql<{ pid: number }>(
    'select w.pid from sluice.workers w where exists (select 1 from sluice.claims c where c.worker_id = w.id and c.assigned is not null)',
  )
  return rows.map(({ pid }) => pid)
}

async function heldSlots(): Promise<number> {
  const [row] = await database.sql<{ n: number }>(
    `select coalesce(sum(slots), 0)::integer as n from sluice.holdings where lane = 'load'`,
  )
  return row!.n
}
