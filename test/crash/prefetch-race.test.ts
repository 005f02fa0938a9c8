import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pino from 'pino'
import { expect, onTestFinished, test } from 'vitest'
import { type Sluice, sluice, task } from '../../src/index.ts'
import { startServer } from '../../src/server/start-server.ts'
import { useDatabase } from '../support/database.ts'
import { losesCycles, startHttpProxy } from '../support/http-proxy.ts'
import { readJournal, secondStartsIn } from '../support/journal.ts'
import { countAssignedToRemotes } from '../support/state/workers.ts'
import { workerKey } from '../support/through-server.ts'
import { until, untilNoneLeft } from '../support/until.ts'
import { useCommitChecker } from '../support/watched-commits.ts'
import { SHORT_LEASES, startWorker, type WorkerProcess } from '../support/worker-process.ts'

const database = useDatabase()
const commits = useCommitChecker(database)

const WORKERS = 8
/** Every third worker is behind a server: three of them. */
const isRemote = (place: number) => place % 3 === 0
const CAPACITY = 4
/** A slot for each job that the workers can run: nobody waits for slots, so that jobs are assigned ahead of them. */
const SLOTS = WORKERS * CAPACITY
const lanes = { race: { slots: SLOTS, poll: 200 } }
const KILLS = 3
const STOPS = 2
const DECLARED_DEAD = 'was declared dead'
/** A worker logs these when its leases end, or are about to. */
const LAPSES = [DECLARED_DEAD, 'no heartbeat gets through']
/** Jobs are submitted in such batches, whenever fewer than a batch are waiting. */
const BATCH = 1000
const MIN_JOBS = 8000
/** How often the operator resizes, pauses and resumes the lane. */
const MIN_ROUNDS = 15

test('eight processes, three of them behind a server, start each assigned job once while some are killed or stopped and the lane is resized and paused', async () => {
  const race = await Race.open()
  await Promise.all([race.operate(), race.harm()]).finally(() => race.end())
  await race.drained()

  const { violations, seen, prefetch } = await commits.catchUp()
  const { faults, late, ...journal } = race.read()
  const remotes = await countAssignedToRemotes(database.sql, prefetch)
  console.log(
    JSON.stringify({
      ...race.counts,
      cuts: race.cuts,
      ...journal,
      late: late.length,
      seen,
      prefetch: prefetch.seen,
      remotes,
    }),
  )
  expect(violations.slice(0, 10)).toEqual([])
  expect(faults.slice(0, 10), 'second starts').toEqual([])
  // Each had started before its process was stopped.
  expect(late.length, late.join()).toBeLessThanOrEqual(STOPS * CAPACITY)
  const ended = await database.sql(
    'select state::text, count(*)::integer as n from sluice.outcomes group by state',
  )
  expect(ended).toEqual([{ state: 'completed', n: race.counts.jobs }])
  expect(await database.sql('select 1 from sluice.queue union all select 1 from sluice.claims')).toEqual([])
  expect(seen.takeovers).toBeGreaterThan(0)
  expect(prefetch.seen.assigned).toBeGreaterThan(2000)
  expect(race.cuts.answers, 'answers of the server that were lost').toBeGreaterThan(0)
  expect(remotes, 'jobs assigned to workers behind a server').toBeGreaterThan(100)
  expect(prefetch.seen.starts).toBeGreaterThan(1000)
  expect(prefetch.seen.returned, 'assigned jobs that were handed back').toBeGreaterThan(20)
  expect(prefetch.seen.lost, 'assigned jobs of lost workers').toBeGreaterThan(0)
}, 240_000)

/** How many requests and answers of workers behind the server were lost. */
interface Cuts {
  readonly requests: number
  readonly answers: number
}

class Race {
  readonly counts = { jobs: 0, rounds: 0 }
  readonly cuts: Cuts
  readonly #app: Sluice
  readonly #journal: string
  readonly #workers: readonly WorkerProcess[]
  readonly #stopped = new Set<WorkerProcess>()
  /** Processes that lost their leases, with the number of lines in the journal by which that was over. */
  readonly #lapses = new Map<number, number>()
  /** Of workers that were stopped, how many messages they had sent when they had leases again. */
  readonly #messages = new Map<WorkerProcess, number>()
  readonly #feeding: Promise<void>
  #isHarmed = false
  #isOver = false

  private constructor(app: Sluice, workers: readonly WorkerProcess[], cuts: Cuts, journal: string) {
    this.#app = app
    this.#workers = workers
    this.cuts = cuts
    this.#journal = journal
    this.#feeding = this.#feed()
  }

  static async open(): Promise<Race> {
    const folder = mkdtempSync(join(tmpdir(), 'sluice-prefetch-race-'))
    onTestFinished(() => rmSync(folder, { recursive: true }))
    const act = task({ name: 'act', lane: 'race', losses: 10, run: () => null })
    const app = await sluice({ database: database.url, ...SHORT_LEASES, lanes, tasks: [act] })
    onTestFinished(() => app.close())
    const server = await startServer({
      app,
      log: pino({ level: 'silent' }),
      host: '127.0.0.1',
      port: 0,
      graceMs: 2000,
    })
    onTestFinished(() => server.stop())
    const proxy = await startHttpProxy(server.url)
    onTestFinished(() => proxy.close())
    const decide = losesCycles(100)
    const cuts = { requests: 0, answers: 0 }
    proxy.decide = (path, body) => {
      const fate = decide(path, body)
      if (fate === 'cut before') cuts.requests++
      if (fate === 'cut after') cuts.answers++
      return fate
    }
    const key = await workerKey(app)
    const start = (_: unknown, place: number) =>
      startWorker({
        ...(isRemote(place)
          ? { remote: { server: proxy.url, key, grace: '200ms' } }
          : { options: { database: database.url, lanes } }),
        work: { capacity: CAPACITY },
        tasks: { act: { lane: 'race', losses: 10 } },
      })
    const workers = await Promise.all(Array.from({ length: WORKERS }, start))
    return new Race(app, workers, cuts, join(folder, 'journal'))
  }

  /** Submits more jobs as the workers get through them, until the race is over and there have been enough. */
  async #feed(): Promise<void> {
    const isLow = async () =>
      (await database.sql(`select 1 from sluice.queue offset ${BATCH} limit 1`)).length === 0
    while (!this.#isOver || this.counts.jobs < MIN_JOBS) {
      const inputs = Array.from({ length: BATCH }, (_, n) => ({ sleepMs: n % 4, journal: this.#journal }))
      this.counts.jobs += (await this.#app.submitMany('act', inputs)).length
      await until(async () => this.#isOver || (await isLow()), 'jobs to be taken')
    }
  }

  /** Resizes, pauses and resumes the lane, until the workers have been through everything. */
  async operate(): Promise<void> {
    do {
      for (const slots of [3, 1]) {
        await this.#app.setLane('race', { slots })
        await until(async () => (await held()) <= slots, `no more than ${slots} slots to be held`)
      }
      await this.#app.setLane('race', { slots: SLOTS })
      await until(async () => (await this.#findAssigned()).length > 0, 'jobs to be assigned again')
      await this.#app.setLane('race', { enabled: false })
      await until(
        async () => (await database.sql('select 1 from sluice.claims')).length === 0,
        'the lane to be idle',
      )
      await this.#app.setLane('race', { enabled: true })
      await until(async () => (await this.#findAssigned()).length > 0, 'jobs to be assigned after the pause')
      this.counts.rounds++
    } while (!this.#isHarmed || this.counts.rounds < MIN_ROUNDS)
  }

  /**
   * Stops two workers for longer than their leases, and kills three: by turns one behind a server and one with access to the database. Each has assigned jobs
   * when that happens.
   */
  async harm(): Promise<void> {
    try {
      const stopped: WorkerProcess[] = []
      while (stopped.length < STOPS) stopped.push(await this.#stopAssigned(isTurnOfRemote(stopped.length)))
      await this.#killAssigned(isTurnOfRemote(0))
      await Promise.all(stopped.map((worker) => this.#letExpire(worker)))
      for (let kills = 1; kills < KILLS; kills++) await this.#killAssigned(isTurnOfRemote(kills))
    } finally {
      this.#isHarmed = true
    }
  }

  /** Workers that nothing has happened to, and that jobs are assigned to. */
  async #findAssigned(): Promise<WorkerProcess[]> {
    const pids = await assignedPids()
    return this.#workers.filter((each) => each.running && !this.#stopped.has(each) && pids.has(each.pid))
  }

  /** Stops a worker that has assigned jobs. */
  async #stopAssigned(remote: boolean): Promise<WorkerProcess> {
    const worker = await until(async () => {
      const all = await this.#findAssigned()
      const found = all.find((each) => isRemote(this.#workers.indexOf(each)) === remote)
      if (found === undefined) return undefined
      await found.pause()
      // It may have started all of them meanwhile.
      if ((await assignedPids()).has(found.pid)) return found
      found.resume()
      return undefined
    }, 'jobs to be assigned to a worker')
    this.#stopped.add(worker)
    return worker
  }

  async #killAssigned(remote: boolean): Promise<void> {
    const worker = await this.#stopAssigned(remote)
    await worker.kill()
    this.#lapses.set(worker.pid, Number.POSITIVE_INFINITY)
  }

  /** Lets a stopped worker go on once it has been declared dead. */
  async #letExpire(worker: WorkerProcess): Promise<void> {
    const row = 'select 1 from sluice.workers where pid = $1 and ended_at is null'
    await until(async () => (await database.sql(row, [worker.pid])).length === 0, 'the leases to expire')
    worker.resume()
    await worker.logged(DECLARED_DEAD)
    this.#lapses.set(worker.pid, readJournal(this.#journal).length)
    this.#messages.set(worker, worker.messages.length)
  }

  end(): void {
    this.#isOver = true
  }

  async drained(): Promise<void> {
    await this.#feeding
    const left = async () => {
      const [row] = await database.sql<{ n: number }>('select count(*)::integer as n from sluice.outcomes')
      return this.counts.jobs - row!.n
    }
    await untilNoneLeft(left, 'all jobs to end')
  }

  /** What the handlers wrote. */
  read() {
    const lines = readJournal(this.#journal)
    // A busy machine may keep workers from their heartbeats.
    const starved = this.#workers.filter((worker) =>
      worker.messages
        .slice(this.#messages.get(worker))
        .some((each) => each.kind === 'log' && LAPSES.some((text) => each.message.includes(text))),
    )
    for (const { pid } of starved) this.#lapses.set(pid, Number.POSITIVE_INFINITY)
    const starts = lines.filter(({ what }) => what === 'start').length
    return { starts, starved: starved.length, ...secondStartsIn(lines, this.#lapses) }
  }
}

const isTurnOfRemote = (turn: number) => turn % 2 === 0

/** How many slots of the lane workers hold. */
async function held(): Promise<number> {
  const [row] = await database.sql<{ n: number }>(
    `select coalesce(sum(slots), 0)::integer as n from sluice.holdings where lane = 'race'`,
  )
  return row!.n
}

/** The processes of workers that jobs are assigned to. */
async function assignedPids(): Promise<ReadonlySet<number>> {
  const rows = await database.sql<{ pid: number }>(
    `select w.pid from sluice.workers w
      where w.ended_at is null and exists (select 1 from sluice.claims c where c.worker_id = w.id and c.assigned is not null)`,
  )
  return new Set(rows.map(({ pid }) => pid))
}
