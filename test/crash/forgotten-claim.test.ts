import { dirname, join } from 'node:path'
import pg from 'pg'
import pino from 'pino'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { type EmbeddedDatabase, openEmbedded } from '../../src/db/embedded/embedded.ts'
import { readNow } from '../../src/engine/views/now.ts'
import { hasCode, type Sluice, sluice, task } from '../../src/index.ts'
import { sentenceOf } from '../../src/model/attention.ts'
import { startServer } from '../../src/server/start-server.ts'
import type { Sql } from '../support/database.ts'
import { kill, makeFolder, removeFolder, serverStart, serversOf } from '../support/embedded.ts'
import { faultsIn, readJournal } from '../support/journal.ts'
import { claimedSinceCrash, claimsAreOpen, workersToReport } from '../support/state/generation.ts'
import { workerKey } from '../support/through-server.ts'
import { until } from '../support/until.ts'
import { WatchedCommits } from '../support/watched-commits.ts'
import { WorkerProcess, whoStarted } from '../support/worker-process.ts'

/** How many crashes have to forget a claim. Now and then one does not: somebody else's write took the claim to disk with it. */
const CRASHES = Number(process.env.SLUICE_CRASHES ?? 1)
const TRIES = CRASHES + 5
/** Longer than a server needs to come back on a busy machine: workers that were cut off for longer stop their jobs. */
const LEASES = { heartbeat: 600, stale: 60_000 }
const LANES = { narrow: { slots: 1, poll: 100 } }
/** By default a claim is on disk within 600 ms. This makes sure that a crash right after it forgets it. */
const SETTINGS = { wal_level: 'logical', wal_writer_delay: '10s', track_functions: 'all' }

/** A server of its own, workers that share a lane with one slot, and a file in which their handlers write. */
class Site {
  readonly url: string
  readonly app: Sluice
  readonly journal: string
  readonly commits: WatchedCommits
  readonly dead = new Set<number>()
  workers: WorkerProcess[] = []
  readonly #folder: string
  readonly #embedded: EmbeddedDatabase
  #stopServer: () => Promise<void> = async () => {}
  #remote: { server: string; key: string; grace: string } | undefined

  private constructor(folder: string, embedded: EmbeddedDatabase, app: Sluice, commits: WatchedCommits) {
    this.#folder = folder
    this.#embedded = embedded
    this.url = embedded.url
    this.app = app
    this.journal = join(dirname(folder), 'journal')
    this.commits = commits
  }

  static async open(
    leases: { heartbeat: number; stale: number } = LEASES,
    { remote = false } = {},
  ): Promise<Site> {
    const folder = join(await makeFolder(), 'data')
    const embedded = await openEmbedded({ dataFolder: folder, settings: SETTINGS })
    const tasks = [
      task({ name: 'act', lane: 'narrow', run: () => null }),
      task({ name: 'wide', run: () => null }),
    ]
    const app = await sluice({ database: embedded.url, ...leases, lanes: LANES, tasks })
    const site = new Site(folder, embedded, app, await WatchedCommits.open(embedded.url))
    if (remote) {
      const log = pino({ level: 'silent' })
      const server = await startServer({ app, log, host: '127.0.0.1', port: 0, graceMs: 2000 })
      site.#stopServer = () => server.stop()
      site.#remote = { server: server.url, key: await workerKey(app), grace: '200ms' }
    }
    for (let i = 0; i < 3; i++) site.workers.push(await site.startWorker(leases))
    return site
  }

  async startWorker(leases = LEASES): Promise<WorkerProcess> {
    const worker = new WorkerProcess({
      ...(this.#remote !== undefined && { remote: this.#remote }),
      options: { database: this.url, ...leases, lanes: LANES },
      work: { capacity: 3 },
      tasks: { act: { lane: 'narrow' }, wide: {} },
    })
    await worker.ready()
    return worker
  }

  readonly sql: Sql = async <R extends pg.QueryResultRow>(text: string, values: unknown[] = []) => {
    const client = new pg.Client(this.url)
    client.on('error', () => {})
    await client.connect()
    try {
      return (await client.query<R>(text, values)).rows
    } finally {
      await client.end()
    }
  }

  /** A job of the narrow lane that runs until the test lets it end, and its worker. */
  async begin(input: object = {}): Promise<{ id: string; worker: WorkerProcess }> {
    const { id } = await this.app.submit('act', { gate: true, journal: this.journal, ...input })
    return { id, worker: await whoStarted(this.workers, id) }
  }

  /** Gives what ends the server without any preparation, as `pg_ctl stop -m immediate` does, and waits for the next one. */
  async armCrash(signal: NodeJS.Signals = 'SIGQUIT'): Promise<() => Promise<void>> {
    const before = await serverStart(this.url)
    const servers = await serversOf(this.#folder)
    return async () => {
      for (const pid of servers) kill(pid, signal)
      await until(
        async () => (await serverStart(this.url).catch(() => before)) !== before,
        'the server to come back',
        60_000,
      )
    }
  }

  /**
   * Crashes PostgreSQL right after a start until `CRASHES` of the crashes have forgotten the claim. Each time the job goes on
   * where it runs, as the attempt it was.
   */
  async forget(arm: () => Promise<() => Promise<void>>, input: object = {}): Promise<void> {
    let forgotten = 0
    for (let i = 0; i < TRIES && forgotten < CRASHES; i++) {
      const crash = await arm()
      const { id, worker } = await this.begin(input)
      await crash()
      await this.flows()
      if (await claimedSinceCrash(this.sql, id)) forgotten++
      worker.go(id)
      expect(await this.app.job(id).result()).toMatchObject({ attempt: 1, pid: worker.pid })
    }
    expect(forgotten, 'claims forgotten').toBe(CRASHES)
  }

  /** A job of another lane has gone through: workers claim again, and would have claimed what is in line. */
  async flows(): Promise<void> {
    const job = await until(
      () =>
        this.app.submit('wide', {}).catch((error: unknown) => {
          if (!hasCode(error, 'DATABASE_UNAVAILABLE')) throw error
          return undefined
        }),
      'the database to take a job',
    )
    expect(await job.result({ timeout: '60s' })).toMatchObject({ attempt: 1 })
  }

  /** How often workers have asked for jobs, as the server counts calls. */
  async cycles(): Promise<number> {
    const [row] = await this.sql<{ n: number }>(
      'select coalesce(sum(calls), 0)::integer as n from pg_stat_user_functions where funcname = $1',
      ['cycle_v1'],
    )
    return row!.n
  }

  /** Nothing has run twice, and no commit broke a rule: read once, since a crash gives commits that were read again. */
  async check(): Promise<void> {
    expect(faultsIn(readJournal(this.journal), this.dead)).toEqual([])
    expect((await this.commits.catchUp()).violations).toEqual([])
  }

  async close(): Promise<void> {
    for (const worker of this.workers) await worker.close()
    await this.#stopServer()
    await this.app.close()
    await this.commits.close()
    await this.#embedded.release()
    await removeFolder(dirname(this.#folder))
  }
}

describe('after a crash of PostgreSQL', () => {
  let site: Site
  beforeAll(async () => {
    site = await Site.open()
  }, 120_000)
  afterAll(() => site?.close())

  test('a claim that it forgot is given back to its worker, under its number', async () => {
    await site.forget(() => site.armCrash(), { step: 'stored' })
  }, 240_000)

  test('of its backends only, the claim is given back too', async () => {
    await site.forget(async () => {
      const victim = new pg.Client(site.url)
      victim.on('error', () => {})
      await victim.connect()
      const [row] = (await victim.query<{ pid: number }>('select pg_backend_pid() as pid')).rows
      return async () => {
        kill(row!.pid, 'SIGKILL')
        await until(() => site.sql('select 1').catch(() => undefined), 'the server to recover', 60_000)
      }
    })
  }, 240_000)

  test('nothing is claimed before every worker that was alive has reported', async () => {
    const [silent, ...others] = site.workers as [WorkerProcess, ...WorkerProcess[]]
    const crash = await site.armCrash()
    await silent.pause()
    onTestFinished(() => silent.resume())
    await crash()
    await until(
      async () => (await workersToReport(site.sql))?.join() === `${silent.pid}`,
      'all but one to report',
      60_000,
    )
    const { id } = await site.app.submit('act', { gate: true, journal: site.journal })
    // A cycle of each that would have found it: they poll ten times a second.
    const asked = await site.cycles()
    await until(async () => (await site.cycles()) > asked + 20, 'the others to look for jobs', 60_000)
    expect(await claimsAreOpen(site.sql)).toBe(false)
    expect((await site.app.getJob(id)).state).toBe('ready')
    const why = await site.app.why(id)
    expect([why.wait.kind, why.reason]).toEqual([
      'crash',
      expect.stringMatching(
        /^PostgreSQL has recovered from a crash: jobs start again once every worker that was alive has/,
      ),
    ])
    expect((await readNow(site.app.services.calls)).findings.map(sentenceOf)).toContainEqual(
      expect.stringMatching(
        /^PostgreSQL has recovered from a crash: no job starts until worker .* has reported/,
      ),
    )
    silent.resume()
    const worker = await whoStarted([silent, ...others], id)
    worker.go(id)
    expect(await site.app.job(id).result()).toMatchObject({ attempt: 1 })
  }, 120_000)

  test('and after a clean restart, jobs are claimed at once although a worker is silent', async () => {
    const [silent] = site.workers as [WorkerProcess]
    const restart = await site.armCrash('SIGINT')
    await silent.pause()
    onTestFinished(() => silent.resume())
    await restart()
    await site.flows()
    expect(await workersToReport(site.sql)).toEqual([])
    silent.resume()
    const { id, worker } = await site.begin()
    worker.go(id)
    expect(await site.app.job(id).result()).toMatchObject({ attempt: 1 })
  }, 120_000)

  test('all the while nothing ran twice, and no commit broke a rule', () => site.check(), 120_000)
})

test('a worker behind a server gets back the claim that a crash forgot', async () => {
  const site = await Site.open(LEASES, { remote: true })
  try {
    await site.forget(() => site.armCrash(), { step: 'stored' })
    await site.check()
  } finally {
    await site.close()
  }
}, 240_000)

test('a number is skipped where a worker died with the server: nobody knows what it had claimed', async () => {
  const leases = { heartbeat: 600, stale: 6000 }
  const site = await Site.open(leases)
  try {
    for (let crashes = 0; crashes < CRASHES; crashes++) {
      const crash = await site.armCrash()
      const { id, worker } = await site.begin()
      const killed = worker.kill()
      site.dead.add(worker.pid)
      await Promise.all([killed, crash()])
      site.workers = site.workers.filter((each) => each !== worker)
      site.workers.push(await site.startWorker(leases))
      const next = await whoStarted(site.workers, id)
      next.go(id)
      // A job that was begun once more because a worker had been cut off for too long is none of this test.
      expect(await site.app.job(id).result()).toMatchObject({ attempt: expect.toSatisfy((n) => n >= 2) })
    }
    await site.check()
  } finally {
    await site.close()
  }
}, 240_000)
