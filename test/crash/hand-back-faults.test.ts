import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pino from 'pino'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { type Sluice, sluice, task } from '../../src/index.ts'
import { type RunningServer, startServer } from '../../src/server/start-server.ts'
import { useDatabase } from '../support/database.ts'
import { type Fault, type FaultProxy, startFaultProxy } from '../support/fault-proxy.ts'
import { readJournal, secondStartsIn } from '../support/journal.ts'
import { workerKey } from '../support/through-server.ts'
import { until } from '../support/until.ts'
import { useCommitChecker } from '../support/watched-commits.ts'
import { SHORT_LEASES, startWorker } from '../support/worker-process.ts'

// The heartbeat thread of a blocked loop hands back what is assigned to the worker, and this statement fails. The journal that the tasks write is
// the truth: it says what ran where, whatever the database believes.

const database = useDatabase()
useCommitChecker(database)
const SLOTS = 4
const lanes = { act: { slots: 2 * SLOTS, poll: 200 } }
/** What happens to the statement `hand_back` the first, second, ... time it is sent. */
let decide: (time: number) => Fault | undefined = () => undefined
let sent = 0
let proxy: FaultProxy
let app: Sluice
let server: RunningServer
let key: string

beforeAll(async () => {
  proxy = await startFaultProxy(database.directUrl, ({ statement, sql }) =>
    statement === 'hand_back' || sql.includes('hand_back_v1') ? decide(++sent) : undefined,
  )
  const act = task({ name: 'act', lane: 'act', run: () => null })
  app = await sluice({ database: proxy.url, ...SHORT_LEASES, lanes, tasks: [act] })
  server = await startServer({
    app,
    log: pino({ level: 'silent' }),
    host: '127.0.0.1',
    port: 0,
    graceMs: 2000,
  })
  key = await workerKey(app)
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
  await proxy.close()
})

/** Which of these jobs have ever been assigned to the worker of this process beyond its slots. */
async function everAssigned(pid: number, ids: readonly string[]): Promise<string[]> {
  const rows = await database.sql<{ id: string }>(
    `select distinct a.id from public.assigned_jobs a join sluice.workers w on w.id = a.worker_id where w.pid = $1 and a.id = any ($2)`,
    [pid, ids],
  )
  return rows.map(({ id }) => id)
}

describe.each(['with access to the database', 'behind a server'] as const)('a worker %s', (way) => {
  const start = () =>
    startWorker({
      ...(way === 'behind a server'
        ? { remote: { server: server.url, key, grace: '200ms' } }
        : { options: { database: proxy.url, lanes } }),
      work: { capacity: SLOTS },
      tasks: { act: { lane: 'act' } },
    })

  /** @returns false if nearly nothing was assigned. */
  const block = async (fault: Fault, times: number, runsMeanwhile: boolean): Promise<boolean> => {
    const folder = mkdtempSync(join(tmpdir(), 'sluice-hand-back-'))
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
    const journal = join(folder, 'journal')
    const blockUntil = join(folder, 'go on')
    writeFileSync(journal, '')
    sent = 0
    decide = (time) => (time <= times ? fault : undefined)
    const submit = async (count: number, input: object) =>
      (await app.submitMany('act', Array(count).fill({ journal, ...input }))).map(({ id }) => id)
    const measured = await submit(400, {})
    const [blocker] = await submit(1, { blockUntil })
    const rest = await submit(60, {})
    const blocked = await start()
    await blocked.started(blocker!)
    const isBlocked = 'select 1 from sluice.workers where pid = $1 and blocked_since is not null'
    await until(async () => (await database.sql(isBlocked, [blocked.pid])).length > 0, 'it to be blocked')
    const behind = await everAssigned(blocked.pid, rest)
    if (behind.length < SLOTS) {
      writeFileSync(blockUntil, '')
      await blocked.close()
      return false
    }
    const other = await start()
    await until(() => sent > 0, 'the thread to hand back')
    const elsewhere = () =>
      readJournal(journal).filter(
        ({ what, pid, job }) => what === 'start' && pid === other.pid && behind.includes(job),
      )
    // Those that had a slot when the loop was blocked wait for it.
    if (runsMeanwhile)
      await until(() => elsewhere().length > behind.length - SLOTS, 'what was assigned to run elsewhere')
    else expect(elsewhere()).toEqual([])
    writeFileSync(blockUntil, '')

    const ids = [...measured, blocker!, ...rest]
    for (const id of ids) await app.job(id).result()
    const lines = readJournal(journal)
    expect(secondStartsIn(lines, new Map())).toEqual({ faults: [], late: [] })
    for (const each of ['start', 'end'])
      expect(
        lines
          .filter(({ what }) => what === each)
          .map(({ job }) => job)
          .sort(),
      ).toEqual([...ids].sort())
    expect(
      await database.sql(
        'select state::text, attempt, losses, count(*)::integer as n from sluice.outcomes where id = any ($1) group by 1, 2, 3',
        [ids],
      ),
    ).toEqual([{ state: 'completed', attempt: 1, losses: 0, n: ids.length }])
    await Promise.all([blocked.close(), other.close()])
    return true
  }

  test.for<[string, { fault: Fault; times: number; runsMeanwhile: boolean }]>([
    [
      'while the loop is blocked if the order to hand back is refused at first',
      { fault: { when: 'before', how: '40001' }, times: 2, runsMeanwhile: true },
    ],
    [
      'while the loop is blocked if the order to hand back is committed and its answer is lost',
      { fault: { when: 'after', how: 'reset' }, times: Number.POSITIVE_INFINITY, runsMeanwhile: true },
    ],
    [
      'once the loop goes on if no order to hand back arrives',
      { fault: { when: 'before', how: 'reset' }, times: Number.POSITIVE_INFINITY, runsMeanwhile: false },
    ],
  ])('what is assigned runs once, %s', async ([, { fault, times, runsMeanwhile }]) => {
    // On a busy machine there may be next to nothing assigned when the loop is blocked.
    await until(() => block(fault, times, runsMeanwhile), 'jobs to be assigned behind one that blocks')
  })
})
