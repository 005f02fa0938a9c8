import { type Queryable, statement } from '../db/database.ts'

/** What a pool has seen and done, beside its settings. */
export interface PoolState {
  readonly pool: string
  /** Jobs its workers could run, that have waited for longer than a moment, and that nobody can take. */
  readonly overflow: number
  readonly lanes: readonly {
    readonly lane: string
    readonly jobs: number
    readonly waitedMs: number
    readonly reason: string
  }[]
  /** Since when there has been overflow without a break. */
  readonly since: Date | null
  /** How often overflow began. */
  readonly overflows: number
  readonly requests: number
  /** Requests that brought no worker. */
  readonly failed: number
  /** Workers that came. */
  readonly arrived: number
  /** Workers on their way out that were told to stay. */
  readonly returned: number
}

/** A worker that came for a request. */
export interface FleetWorker {
  readonly id: string
  readonly name: string
  readonly arrivedAt: Date
  /** Jobs that it has ended, as of its last heartbeat. */
  readonly done: number
  readonly endedAt: Date | null
  readonly endedWhy: string | null
}

export interface FleetDecisionView {
  readonly id: string
  readonly pool: string
  readonly action: 'start' | 'bring-back'
  readonly count: number
  readonly reason: string
  readonly decidedAt: Date
  readonly decidedBy: string
  /** By then they have to have come. */
  readonly dueAt: Date | null
  /** As the provisioner says; `null`: it has not answered, or was not asked. */
  readonly started: number | null
  readonly instances: readonly { readonly member: number; readonly id: string }[]
  readonly failures: readonly { readonly member: number; readonly message: string }[]
  readonly endedAt: Date | null
  readonly outcome: 'arrived' | 'expired' | 'failed' | 'returned' | null
  readonly endedWhy: string | null
  readonly workers: readonly FleetWorker[]
}

const STATES = statement(
  'list_fleet_states',
  `select s.pool, s.jobs as overflow, s.lanes, s.since, s.overflows::float8 as overflows, s.requests::float8 as requests,
          s.failed::float8 as failed, s.arrived::float8 as arrived, s.returned::float8 as returned
     from sluice.fleet_samples s order by s.pool`,
)
const DECISIONS = statement(
  'list_fleet_decisions',
  `select d.id, d.pool, d.action, d.count, d.reason, d.decided_at as "decidedAt", d.decided_by as "decidedBy", d.arrive_by as "dueAt",
          d.started, d.instances, d.failures, d.ended_at as "endedAt", d.outcome, d.ended_why as "endedWhy",
          coalesce((select jsonb_agg(jsonb_build_object('id', w.id::text, 'name', w.name, 'arrivedAt', w.started_at, 'done', w.done, 'endedAt', w.ended_at,
                                                        'endedWhy', w.ended_why) order by w.id)
                      from sluice.workers w where d.token is not null and split_part(w.request, '.', 1) = d.token), '[]') as workers
     from sluice.fleet_decisions d
    where ($1::text is null or d.pool = $1) and ($2::bigint is null or d.id < $2) order by d.id desc limit $3`,
)

type Stored = Omit<FleetDecisionView, 'workers'> & {
  readonly workers: readonly (Omit<FleetWorker, 'arrivedAt' | 'endedAt'> & {
    readonly arrivedAt: string
    readonly endedAt: string | null
  })[]
}

/** Overflow and totals of every pool that has had any. */
export async function listFleetStates(db: Queryable): Promise<PoolState[]> {
  return db.run<PoolState & Record<string, unknown>>(STATES)
}

/** Decisions to have more workers, newest first, with the workers that came. */
export async function listFleetDecisions(
  db: Queryable,
  filter: {
    readonly pool?: string | undefined
    readonly before?: string | undefined
    readonly limit: number
  },
): Promise<FleetDecisionView[]> {
  const rows = await db.run<Stored & Record<string, unknown>>(DECISIONS, [
    filter.pool ?? null,
    filter.before ?? null,
    filter.limit,
  ])
  return rows.map((row) => ({
    ...row,
    workers: row.workers.map((worker) => ({
      ...worker,
      arrivedAt: new Date(worker.arrivedAt),
      endedAt: worker.endedAt === null ? null : new Date(worker.endedAt),
    })),
  }))
}
