import pg from 'pg'
import { onTestFinished } from 'vitest'
import { CommitChecker } from './commit-checker.ts'
import type { Commit } from './commit-stream.ts'
import type { TestDatabase } from './database.ts'
import { WatchedCommits } from './watched-commits.ts'

export const CLAIM = `update sluice.jobs set state = 'running', worker_id = $2, attempt = attempt + 1, started_at = clock_timestamp()
                where id = $1`
export const COMPLETE = `update sluice.jobs set state = 'completed', finished_at = clock_timestamp() where id = $1`

/** A checker for which commits happen later than they do, so that a test need not wait. */
class DelayedChecker extends CommitChecker {
  laterMs = 0

  override apply(commit: Commit): void {
    super.apply({ ...commit, at: commit.at + this.laterMs })
  }
}

/** What is said of the lane of a scene; two slots unless it says otherwise. */
export interface LaneRow {
  readonly perWorker?: number
  readonly staleMs?: number
  readonly slots?: number | null
  readonly prefetch?: number
  readonly placement?: 'fill' | 'spread'
}

let scenes = 0

/** Rows written by hand, as an engine with a bug would write them, and the checker's view of them. */
export class Scene {
  readonly lane = `lane_${++scenes}`
  readonly #database: TestDatabase
  readonly #checker = new DelayedChecker({ visibleMs: 0, reportMs: 0 })
  #watched!: WatchedCommits
  #classId = 0

  private constructor(database: TestDatabase) {
    this.#database = database
  }

  /** A lane with two slots, and a checker that makes no allowance for slow commits. */
  static async open(database: TestDatabase, lane: LaneRow = {}): Promise<Scene> {
    const scene = new Scene(database)
    const { slots = 2, perWorker = null, staleMs = 60_000, prefetch = 1000, placement = 'fill' } = lane
    await database.sql(
      'insert into sluice.lanes (name, slots, per_worker, stale_ms, prefetch, placement) values ($1, $2, $3, $4, $5, $6)',
      [scene.lane, slots, perWorker, staleMs, prefetch, placement],
    )
    const [row] = await database.sql<{ id: number }>(
      `insert into sluice.classes (lane, task) values ($1, 'forged') returning id`,
      [scene.lane],
    )
    scene.#classId = row!.id
    scene.#watched = await WatchedCommits.open(database.directUrl, scene.#checker)
    onTestFinished(() => scene.#watched.close())
    return scene
  }

  get classId(): number {
    return this.#classId
  }

  /** What is committed from now on comes so much later. */
  async pass(ms: number): Promise<void> {
    await this.#watched.catchUp()
    this.#checker.laterMs += ms
  }

  async worker(capacity: number, slots: number): Promise<string> {
    const [row] = await this.#database.sql<{ id: string }>(
      `insert into sluice.workers (name, host, pid, version, capacity, cores, tasks)
       values ('forged', 'here', 1, '0', $1, 1, '{forged}') returning id`,
      [capacity],
    )
    await this.#database.sql('insert into sluice.holdings (worker_id, lane, slots) values ($1, $2, $3)', [
      row!.id,
      this.lane,
      slots,
    ])
    return row!.id
  }

  async job(key: string | null = null): Promise<string> {
    const [row] = await this.#database.sql<{ id: string }>(
      `insert into sluice.jobs (class_id, task, key) values ($1, 'forged', $2) returning id`,
      [this.#classId, key],
    )
    return row!.id
  }

  /** Several statements, one commit. */
  async commit(...statements: [text: string, ...values: unknown[]][]): Promise<void> {
    const client = new pg.Client(this.#database.url)
    await client.connect()
    try {
      await client.query('begin')
      for (const [text, ...values] of statements) await client.query(text, values)
      await client.query('commit')
    } finally {
      await client.end()
    }
  }

  /** Jobs that one claim gives a worker, which starts so many of them: all, if it is left out. */
  async together(worker: string, count: number, started: number | null = null): Promise<string[]> {
    const ids: string[] = []
    for (let n = 0; n < count; n++) ids.push(await this.job())
    await this.give(worker, ids, started)
    return ids
  }

  /** As `together` does, jobs that are in the queue. */
  give(worker: string, ids: readonly string[], started: number | null): Promise<void> {
    return this.commit([
      `select sluice.start_jobs_v1($1, clock_timestamp(), (select count(*) from sluice.claims where worker_id = $1) + 1,
                                   array(select ctid from sluice.queue where id = any ($2) order by id), p_start => $3)`,
      worker,
      ids,
      started,
    ])
  }

  claim(job: string, worker: string): Promise<void> {
    return this.commit([CLAIM, job, worker])
  }

  complete(job: string): Promise<void> {
    return this.commit([COMPLETE, job])
  }

  async rules(): Promise<string[]> {
    const { violations } = await this.#watched.catchUp()
    return [...new Set(violations.map(({ rule }) => rule))]
  }
}
