import { type Queryable, statement } from '../db/database.ts'

export interface WithdrawnTask {
  readonly task: string
  readonly why: string
  readonly since: Date
  readonly retryAt: Date
}

export interface WorkerView {
  readonly id: string
  readonly name: string
  readonly host: string
  readonly pid: number
  readonly version: string
  readonly capacity: number
  /** Processes its process pool may have now. */
  readonly processes: number
  /** The most its process pool would take. Null: it has none, or does not share the cores of its host. */
  readonly processLimit: number | null
  readonly tasks: readonly string[]
  /** What it offers to tasks with `requires`. */
  readonly labels: Readonly<Record<string, unknown>>
  /** Its place among workers, the smallest first; among equals who came first. */
  readonly rank: number
  /** The pool it belongs to. */
  readonly pool: string | null
  /** The request for workers that it was started for. */
  readonly request: string | null
  /** Which build of the program it runs, as that says. */
  readonly build: string | null
  readonly draining: boolean
  /** Why it cannot start jobs any more; it is draining then. */
  readonly broken: string | null
  /** Tasks it could not start, why, and when it tries again. */
  readonly withdrawn: readonly WithdrawnTask[]
  /** Asked to end: it leaves once what it runs has ended. */
  readonly stopping: boolean
  readonly running: number
  /** Jobs it has beyond its slots and has not started. */
  readonly assigned: number
  readonly startedAt: Date
  readonly seenAt: Date
  readonly silentMs: number
  /** Not heard of for two heartbeats. */
  readonly silent: boolean
}

const LIST = statement(
  'list_workers',
  `select w.id, w.name, w.host, w.pid, w.version, w.capacity, w.processes, w.process_limit as "processLimit", w.tasks, w.labels, w.rank, w.pool, w.request, w.build, w.draining, w.broken, w.stopping, w.started_at as "startedAt", w.seen_at as "seenAt",
          (extract(epoch from clock_timestamp() - w.seen_at) * 1000)::float8 as "silentMs",
          w.seen_at < clock_timestamp() - make_interval(secs => 2 * h.value / 1000.0) as silent,
          (select coalesce(jsonb_agg(jsonb_build_object('task', d.task, 'why', d.why, 'since', d.since, 'retryAt', d.retry_at) order by d.task), '[]')
             from sluice.withdrawals d where d.worker_id = w.id) as withdrawn,
          (select count(*)::integer from sluice.running r where r.worker_id = w.id) as running,
          (select coalesce(sum(cardinality(r.assigned)), 0)::integer from sluice.claims r where r.worker_id = w.id) as assigned
     from sluice.workers w cross join sluice.settings h where w.ended_at is null and h.name = 'heartbeat_ms' order by w.rank, w.id`,
)

/** The workers that have not ended, in the order in which they are filled. */
export async function listWorkers(db: Queryable): Promise<WorkerView[]> {
  type Stored = Omit<WorkerView, 'withdrawn'> & {
    withdrawn: { task: string; why: string; since: string; retryAt: string }[]
  }
  const rows = await db.run<Stored & Record<string, unknown>>(LIST)
  return rows.map((row) => ({
    ...row,
    withdrawn: row.withdrawn.map((each) => ({
      ...each,
      since: new Date(each.since),
      retryAt: new Date(each.retryAt),
    })),
  }))
}
