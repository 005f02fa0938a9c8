import { readFileSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pino from 'pino'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { type Sluice, sluice, task } from '../../src/index.ts'
import { type RunningServer, startServer } from '../../src/server/start-server.ts'
import { useDatabase } from '../support/database.ts'
import { startFaultProxy } from '../support/fault-proxy.ts'
import { workerKey } from '../support/through-server.ts'
import { until } from '../support/until.ts'
import { useCommitChecker } from '../support/watched-commits.ts'
import { SHORT_LEASES, startWorker, type WorkerProcess } from '../support/worker-process.ts'

// What is assigned to a worker beyond its slots when the worker dies, stands still or is blocked. The journal that the tasks write is
// the truth: it says what ran where, whatever the database believes.

const database = useDatabase()
useCommitChecker(database)
const SLOTS = 4
const lanes = { act: { slots: 2 * SLOTS, poll: 200 } }
let app: Sluice
let server: RunningServer
let key: string

beforeAll(async () => {
  const tasks = [
    task({ name: 'act', lane: 'act', losses: 10, run: () => null }),
    task({ name: 'poison', lane: 'act', losses: 1, run: () => null }),
  ]
  app = await sluice({ database: database.url, ...SHORT_LEASES, lanes, tasks })
  server = await startServer({
    app,
    log: pino({ level: 'silent' }),
    host: '127.0.0.1',
    port: 0,
    graceMs: 2000,
  })
  key = await workerKey(app)
  // Workers behind a server take nothing over.
  app.startDuties()
  // A trigger sees every assignment, also one that lives for a millisecond.
  await database.sql('create table public.assigned_jobs (id bigint, worker_id bigint)')
  await database.sql(`create function public.note_assigned() returns trigger language plpgsql as $$
    begin insert into public.assigned_jobs select unnest(new.assigned), new.worker_id; return null; end $$`)
  await database.sql(`create trigger note_assigned after insert on sluice.claims for each row
    when (new.assigned is not null) execute function public.note_assigned()`)
})
afterAll(async () => {
  await server.stop()
  await app.close()
})

const WAYS = ['with access to the database', 'behind a server'] as const
/** How the workers of the present test get their jobs. */
let way: (typeof WAYS)[number]

const start = (url = database.url) =>
  startWorker({
    ...(way === 'behind a server'
      ? { remote: { server: server.url, key, grace: '200ms' } }
      : { options: { database: url, lanes } }),
    work: { capacity: SLOTS },
    tasks: { act: { lane: 'act', losses: 10 }, poison: { lane: 'act', losses: 1 } },
  })

interface Line {
  readonly what: string
  readonly job: string
  readonly attempt: number
  readonly pid: number
}

function journal() {
  const path = join(tmpdir(), `sluice-prefetch-${process.pid}-${performance.now()}`)
  writeFileSync(path, '')
  const read = (): Line[] =>
    readFileSync(path, 'utf8')
      .split('\n')
      .slice(0, -1)
      .map((line) => line.split(' '))
      .map(([what, job, attempt, pid]) => ({
        what: what!,
        job: job!,
        attempt: Number(attempt),
        pid: Number(pid),
      }))
  return { path, read, starts: () => read().filter(({ what }) => what === 'start') }
}

const jobs = async (count: number, input: object) =>
  (await app.submitMany('act', Array(count).fill(input))).map(({ id }) => id)

async function someAssigned(worker: WorkerProcess): Promise<string[]> {
  return until(async () => {
    const rows = await database.sql<{ id: string }>(
      `select r.id from sluice.claimed r join sluice.workers w on w.id = r.worker_id where r.assigned and w.pid = $1`,
      [worker.pid],
    )
    return rows.length > 0 && rows.map(({ id }) => id)
  }, `jobs to be assigned to worker ${worker.pid}`)
}

/** Which of these jobs have ever been assigned to a worker beyond its slots. */
async function everAssigned(worker: WorkerProcess, ids: readonly string[]): Promise<string[]> {
  const rows = await database.sql<{ id: string }>(
    `select distinct a.id from public.assigned_jobs a join sluice.workers w on w.id = a.worker_id where w.pid = $1 and a.id = any ($2)`,
    [worker.pid, ids],
  )
  return rows.map(({ id }) => id)
}

async function losses(ids: readonly string[]): Promise<ReadonlyMap<string, number>> {
  const rows = await database.sql<{ id: string; losses: number }>(
    'select id, losses from sluice.outcomes where id = any ($1) and losses > 0',
    [ids],
  )
  return new Map(rows.map((row) => [row.id, row.losses]))
}

describe.each(WAYS)('a worker %s', (each) => {
  beforeAll(() => {
    way = each
  })

  test('kill -9: what was only assigned counts no loss, and every job ends', async () => {
    const { path, read, starts } = journal()
    const ids = await jobs(3000, { sleepMs: 2, journal: path })
    const killed: number[] = []
    for (let i = 0; i < 3; i++) {
      const victim = await start()
      await someAssigned(victim)
      await victim.kill()
      killed.push(victim.pid)
    }
    await start()
    for (const id of ids) await app.job(id).result()

    const lost = await losses(ids)
    // No more can run at once, and what only was assigned counts no loss.
    expect([...lost.values()].reduce((sum, n) => sum + n, 0)).toBeLessThanOrEqual(killed.length * SLOTS)
    // An ending that a victim did not report is repeated; one that it reported is not.
    const ended = new Set(
      read()
        .filter(({ what }) => what === 'end')
        .map(({ job }) => job),
    )
    expect(ended.size).toBe(3000)
    expect(starts().length).toBeLessThan(3000 + killed.length * 200)
  })

  test('a worker that stood still for longer than its lease starts none of its assigned jobs', async () => {
    const { path, starts } = journal()
    const ids = await jobs(3000, { sleepMs: 2, journal: path })
    const sleeper = await start()
    await someAssigned(sleeper)
    await sleeper.pause()
    const before = starts().length
    const other = await start()
    for (const id of ids) await app.job(id).result()
    sleeper.resume()
    await sleeper.logged('was declared dead')
    const more = await jobs(50, { sleepMs: 2, journal: path })
    for (const id of more) await app.job(id).result()

    const seen = new Map<string, number>()
    const late: Line[] = []
    for (const line of starts()) {
      if (line.attempt <= (seen.get(line.job) ?? 0)) late.push(line)
      seen.set(line.job, Math.max(line.attempt, seen.get(line.job) ?? 0))
    }
    // Nobody starts what another has started since. The signal may have met the sleeper between the start of one job and its line.
    expect(late.length).toBeLessThanOrEqual(1)
    expect(
      starts()
        .slice(0, before)
        .every(({ pid }) => pid === sleeper.pid),
    ).toBe(true)
    expect(starts().some(({ pid }) => pid === other.pid)).toBe(true)
  })

  test('while a task blocks the event loop, what is assigned behind it runs elsewhere', async () => {
    const { path, starts } = journal()
    const block = async () => {
      await jobs(400, { journal: path })
      const [blocker] = await jobs(1, { blockMs: 120_000, journal: path })
      const rest = await jobs(60, { journal: path })
      const blocked = await start()
      await blocked.started(blocker!)
      const isBlocked = 'select 1 from sluice.workers where pid = $1 and blocked_since is not null'
      await until(async () => (await database.sql(isBlocked, [blocked.pid])).length > 0, 'it to be blocked')
      // Some may have started in the other slots before the loop was blocked.
      const behind = await everAssigned(blocked, rest)
      if (behind.length >= SLOTS) return { blocker, rest, blocked, behind }
      await blocked.kill()
      await app.cancel(blocker!)
      return undefined
    }
    // On a busy machine there may be next to nothing assigned at that moment.
    const { blocker, rest, blocked, behind } = await until(
      block,
      'jobs to be assigned behind one that blocks',
    )
    const other = await start()
    // Those that had a slot when the loop was blocked wait for it. All others end elsewhere.
    const others = rest.length - (SLOTS - 1)
    await until(async () => {
      const ended = await database.sql('select 1 from sluice.outcomes where id = any ($1)', [rest])
      return ended.length >= others
    }, 'what was assigned to run elsewhere')
    expect((await app.getJob(blocker!)).finishedAt).toBeNull()
    const runs = starts().filter(({ job }) => rest.includes(job))
    expect(new Set(runs.map(({ job }) => job)).size).toBe(runs.length)
    const elsewhere = new Set(runs.filter(({ pid }) => pid === other.pid).map(({ job }) => job))
    expect(behind.filter((id) => !elsewhere.has(id)).length).toBeLessThan(SLOTS)
    await blocked.kill()
    await app.cancel(blocker!)
  })

  test('a job that kills its process fails after its losses, and neighbours that had not started lose nothing', async () => {
    const { path } = journal()
    let deaths = 0
    let isOver = false
    const supervise = async (worker: WorkerProcess): Promise<void> => {
      await worker.exited
      if (isOver) return
      deaths++
      await supervise(await start())
    }
    const before = await jobs(600, { journal: path, sleepMs: 1 })
    const { id: poison } = await app.submit('poison', { journal: path, die: true })
    const after = await jobs(300, { journal: path, sleepMs: 1 })
    const supervised = supervise(await start())
    await expect(app.job(poison).result()).rejects.toMatchObject({ code: 'JOB_FAILED' })
    for (const id of [...before, ...after]) await app.job(id).result()
    isOver = true
    const lost = await losses([...before, ...after])
    expect(lost.size).toBeLessThanOrEqual(deaths * (SLOTS - 1))
    // Once its start is certain, two losses are enough; a death before that counts none.
    expect(deaths).toBeLessThanOrEqual(3)
    void supervised
  })
})

test('a blocked worker hands back what it is assigned although its connection is cut when it first tries', async () => {
  way = 'with access to the database'
  let cuts = 0
  const proxy = await startFaultProxy(database.directUrl, ({ statement }) => {
    if (statement !== 'hand_back' || cuts === 3) return undefined
    cuts++
    return { when: 'before', how: 'reset' }
  })
  onTestFinished(() => proxy.close())
  const { path } = journal()
  // Now and then nothing is assigned when the loop is blocked, and there is nothing to hand back.
  for (let tries = 1; cuts === 0; tries++) {
    expect(tries, 'tries to block a loop that jobs are assigned to').toBeLessThan(6)
    await jobs(400, { journal: path })
    const [blocker] = await jobs(1, { blockMs: 120_000, journal: path })
    const rest = await jobs(60, { journal: path })
    const blocked = await start(proxy.url)
    await blocked.started(blocker!)
    const other = await start()
    const others = rest.length - (SLOTS - 1)
    await until(async () => {
      const ended = await database.sql('select 1 from sluice.outcomes where id = any ($1)', [rest])
      return ended.length >= others
    }, 'what was assigned to run elsewhere')
    expect((await app.getJob(blocker!)).finishedAt).toBeNull()
    await Promise.all([blocked.kill(), other.kill()])
    await app.cancel(blocker!)
  }
  expect(cuts).toBe(3)
}, 240_000)
