import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { openEmbedded } from '../../src/db/embedded/embedded.ts'
import { hasCode, type Sluice, sluice, task } from '../../src/index.ts'
import { keepersOf, query, serverStart, serversOf, temporaryFolder } from '../support/embedded.ts'
import { Gate } from '../support/gate.ts'
import { claimsAreOpen } from '../support/state/generation.ts'
import { until, untilNoneLeft } from '../support/until.ts'
import { WatchedCommits } from '../support/watched-commits.ts'
import { startWorker, type WorkerProcess } from '../support/worker-process.ts'

// A server that replays its log on a busy machine takes a while; what is tested is that it costs nobody a job.
const STALE_MS = 3000
const LEASES = { heartbeat: 600, stale: STALE_MS }
const LANES = { narrow: { slots: 5, poll: 200 } }

/** A server of its own, three workers on it, and a stream of jobs. */
class Station {
  readonly folder: string
  readonly url: string
  readonly app: Sluice
  readonly workers: readonly WorkerProcess[]
  /** Jobs whose submission was confirmed. */
  readonly accepted = new Set<string>()
  #submitting: Promise<void> | undefined
  #stop = false

  private constructor(folder: string, url: string, app: Sluice, workers: readonly WorkerProcess[]) {
    this.folder = folder
    this.url = url
    this.app = app
    this.workers = workers
  }

  static async open(): Promise<{ station: Station; commits: WatchedCommits }> {
    const folder = join(await temporaryFolder(), 'data')
    const embedded = await openEmbedded({ dataFolder: folder, settings: { wal_level: 'logical' } })
    onTestFinished(() => embedded.release())
    const options = { database: embedded.url, ...LEASES, lanes: LANES }
    const app = await sluice(options)
    const commits = await WatchedCommits.open(embedded.url)
    const start = () =>
      startWorker({
        options,
        work: { capacity: 3 },
        tasks: { act: { lane: 'narrow', losses: 0 }, wide: { losses: 0 } },
      })
    return {
      station: new Station(folder, embedded.url, app, [await start(), await start(), await start()]),
      commits,
    }
  }

  submitAllTheTime(): void {
    this.#submitting = (async () => {
      for (let n = 0; !this.#stop; n++) {
        // With a key a submission that may have been stored can be sent again.
        const task = n % 2 === 0 ? 'act' : 'wide'
        try {
          const job = await this.app.submit(task, { sleepMs: n % 10 }, { key: `${n}` })
          this.accepted.add(job.id)
          // Not far ahead of the workers, or the test would be about draining.
          if (n % 20 === 0) await job.result()
        } catch (error) {
          if (!hasCode(error, 'DATABASE_UNAVAILABLE')) throw error
          n -= 1
        }
      }
    })()
  }

  async drain(): Promise<void> {
    this.#stop = true
    await this.#submitting
    await untilNoneLeft(() => this.count(`state < 'completed'`), 'all jobs to end')
  }

  async count(condition: string): Promise<number> {
    const [row] = await query<{ n: number }>(
      this.url,
      `select count(*)::integer as n from sluice.jobs where ${condition}`,
    )
    return row!.n
  }

  /** What \`pg_ctl stop -m immediate\` does. Resolves when another server answers. */
  async crash(): Promise<void> {
    const before = await serverStart(this.url)
    for (const pid of await serversOf(this.folder)) process.kill(pid, 'SIGQUIT')
    await this.backUp(before)
  }

  async backUp(before: string): Promise<void> {
    await until(
      async () => (await serverStart(this.url).catch(() => before)) !== before,
      'the server to come back',
    )
  }
}

test('PostgreSQL stopped immediately, several times under load, costs no job and no attempt', async () => {
  const { station, commits } = await Station.open()
  station.submitAllTheTime()
  for (let round = 0; round < 3; round++) {
    const before = station.accepted.size
    await until(() => station.accepted.size > before + 50, 'the load to run')
    await until(async () => (await station.count(`state = 'running'`)) > 0, 'jobs to run')
    await station.crash()
  }
  await station.drain()

  const [row] = await query<{ missing: string[] }>(
    station.url,
    `select array(select id from unnest('{${[...station.accepted]}}'::bigint[]) id
                   except select id from sluice.jobs where state = 'completed')::text[] as missing`,
  )
  expect(row!.missing).toEqual([])
  expect(await station.count('losses > 0 or failures > 0')).toBe(0)
  for (const worker of station.workers) await worker.close()
  expect(await query(station.url, 'select * from sluice.holdings')).toEqual([])
  await station.app.close()

  const { violations, seen } = await commits.catchUp()
  expect(violations).toEqual([])
  expect(seen.outcomes).toBeGreaterThanOrEqual(station.accepted.size)
  await commits.close()
})

test('what was accepted, stepped and finished survives a crash with synchronous_commit off', async () => {
  const folder = join(await temporaryFolder(), 'data')
  // With this delay nothing reaches the disk by itself before the crash.
  const settings = { synchronous_commit: 'off', wal_writer_delay: '10s' }
  const embedded = await openEmbedded({ dataFolder: folder, settings })
  onTestFinished(() => embedded.release())
  const crash = async () => {
    const before = await serverStart(embedded.url)
    for (const pid of await serversOf(folder)) process.kill(pid, 'SIGQUIT')
    await until(
      async () => (await serverStart(embedded.url).catch(() => before)) !== before,
      'the server to come back',
    )
  }
  const gate = new Gate()
  let steps = 0
  const act = task({
    name: 'act',
    run: async (n: number, ctx) => {
      const stepped = await ctx.step('once', () => ++steps)
      if (n === 1) await gate.pass()
      return stepped
    },
  })
  const app = await sluice({ database: embedded.url, ...LEASES, tasks: [act] })
  onTestFinished(() => app.close())

  const accepted = await app.submit(act, 1)
  await crash()
  expect(await app.getJob(accepted.id), 'the accepted job').toMatchObject({ status: 'queued' })

  await app.work({ capacity: 1 })
  await gate.arrived(1)
  await crash()
  gate.open()
  expect(await accepted.result({ timeout: '30s' })).toBe(1)
  expect(steps, 'how often the step ran').toBe(1)

  await crash()
  expect(await app.getJob(accepted.id), 'the outcome').toMatchObject({ status: 'completed', result: 1 })
})

test('a worker that a crash robbed of what it was assigned keeps what runs, and what has ended counts', async () => {
  const folder = join(await temporaryFolder(), 'data')
  // By default a claim is on disk within 600 ms.
  const settings = { wal_level: 'logical', wal_writer_delay: '10s' }
  const embedded = await openEmbedded({ dataFolder: folder, settings })
  onTestFinished(() => embedded.release())
  const SLOTS = 5
  const runs: string[] = []
  let [first, last] = [new Gate(), new Gate()]
  const act = task({
    name: 'act',
    run: async (part: 'first' | 'brief' | 'last', ctx) => {
      runs.push(ctx.job.id)
      if (part !== 'brief') await (part === 'first' ? first : last).pass()
      return { attempt: ctx.attempt }
    },
  })
  const app = await sluice({ database: embedded.url, heartbeat: 600, stale: 60_000, tasks: [act] })
  onTestFinished(() => app.close())
  const commits = await WatchedCommits.open(embedded.url)
  await app.work({ capacity: SLOTS })
  const submit = (parts: readonly ('first' | 'brief' | 'last')[]) => app.submitMany(act, parts)
  const some = <T extends 'first' | 'brief' | 'last'>(count: number, part: T): T[] => Array(count).fill(part)

  /** Answers whether the crash forgot a claim whose assigned jobs had started by then. */
  const round = async (): Promise<boolean> => {
    ;[first, last] = [new Gate(), new Gate()]
    // Quick jobs: afterwards the worker is assigned more than it has slots.
    for (const job of await submit(some(300, 'brief'))) await job.result({ timeout: '60s' })
    const [cycles] = await query<{ pid: number }>(
      embedded.url,
      `select pid from pg_stat_activity where application_name = 'sluice-cycle'`,
    )
    const jobs = await submit([...some(SLOTS, 'first'), ...some(15, 'brief'), ...some(SLOTS, 'last')])
    await first.arrived(SLOTS)
    process.kill(cycles!.pid, 'SIGKILL')
    const killedAt = performance.now()
    first.open()
    await last.arrived(SLOTS)
    // A cycle that failed is sent again after 250 ms at the earliest.
    const hadStarted = performance.now() - killedAt < 200
    await until(
      () => claimsAreOpen((text) => query(embedded.url, text)).catch(() => false),
      'jobs to be claimed again',
    )
    last.open()
    for (const job of jobs) expect(await job.result({ timeout: '60s' })).toEqual({ attempt: 1 })
    expect(jobs.map(({ id }) => runs.filter((each) => each === id).length)).toEqual(jobs.map(() => 1))
    const [row] = await query<{ since: boolean }>(
      embedded.url,
      `select j.started_at > g.noticed_at as since from sluice.jobs j, sluice.generation g where j.id = ${jobs.at(-1)!.id}`,
    )
    return hadStarted && row!.since
  }
  let tries = 0
  while (!(await round())) expect(++tries, 'rounds without a claim that was forgotten').toBeLessThan(10)

  expect(await query(embedded.url, 'select 1 from sluice.jobs where losses > 0 or failures > 0')).toEqual([])
  expect((await commits.catchUp()).violations).toEqual([])
  await commits.close()
}, 240_000)

test('a database that is away for longer than stale makes nobody dead', async () => {
  const { station, commits } = await Station.open()
  const jobs = await station.app.submitMany(
    'wide',
    [{}, {}, {}].map(() => ({ gate: true, deaf: true })),
  )
  await until(
    () => jobs.every(({ id }) => station.workers.some((worker) => worker.hasStarted(id))),
    'the jobs to run',
  )
  const before = await serverStart(station.url)
  // Its keeper would bring it back at once.
  for (const pid of await keepersOf(station.folder)) process.kill(pid, 'SIGSTOP')
  for (const pid of await serversOf(station.folder)) process.kill(pid, 'SIGQUIT')
  const since = Date.now()
  await until(() => Date.now() - since > 2 * STALE_MS, 'the outage to be longer than stale')
  for (const pid of await keepersOf(station.folder)) process.kill(pid, 'SIGCONT')
  await station.backUp(before)

  for (const { id } of jobs) for (const worker of station.workers) worker.go(id)
  for (const job of jobs) expect(await job.result()).toMatchObject({ attempt: 1 })
  expect(await query(station.url, 'select name from sluice.workers where ended_at is not null')).toEqual([])
  for (const worker of station.workers) await worker.close()
  await station.app.close()
  expect((await commits.catchUp()).violations).toEqual([])
  await commits.close()
})
