import { type Queryable, statement } from '../db/database.ts'
import type { Concerns } from '../model/attention.ts'
import { COUNTED_FAILURES } from '../model/limits.ts'

/** How the system stands, or stood. Times are in milliseconds since 1970. */
export interface SystemSnapshot {
  readonly at: number
  readonly admission: {
    /** `null`: no ceiling, and nobody counts. */
    readonly maxActive: number | null
    readonly active: number | null
    /** Of root jobs whose first start lies in the future; `null`: no limit, and nobody counts. */
    readonly maxScheduled: number | null
    readonly scheduled: number | null
    /** Root jobs that one owner may have, and how many the five with the most have; `null`: no limit, and nobody counts. */
    readonly maxPerOwner: number | null
    readonly owners: Readonly<Record<string, number>> | null
    readonly queued: number
    /** Root jobs that ended in a second, as last measured. */
    readonly drainRate: number
  }
  readonly lanes: readonly LaneSnapshot[]
  readonly workers: {
    readonly live: number
    readonly busy: number
    readonly idle: number
    readonly draining: number
    readonly stopping: number
    /** Not heard of for two heartbeats. */
    readonly silent: number
    /** `null`: some have no limit of their own. */
    readonly capacity: number | null
    readonly running: number
  }
  readonly devices: readonly DeviceSnapshot[]
  /** Roots that have not ended. */
  readonly states: ByState
  /** Tasks below roots, which have not ended either. */
  readonly steps: ByState
  /** States with more jobs than were looked at. */
  readonly more: readonly string[]
  readonly failed: { readonly minute: number; readonly tenMinutes: number; readonly hour: number }
  readonly recovered: {
    readonly minute: number
    readonly hour: number
    readonly lateWrites: number
    readonly drift: number
  }
  /** Submissions refused in the last minute, over HTTP. */
  readonly refused: number
  readonly concerns: StoredConcerns
}

/** As the database knows them: whether a fan-out of which children failed can still succeed is for its strategy to say. */
export interface StoredConcerns extends Omit<Concerns, 'doomed'> {
  readonly failing: readonly {
    readonly id: string
    readonly root: string
    readonly step: string
    readonly graph: string
    readonly node: string
    readonly total: number | null
    readonly completed: number
    readonly failed: number
    readonly cancelled: number
  }[]
}

/** How it stood: what needed attention then is not kept. */
export type PastSnapshot = Omit<SystemSnapshot, 'concerns'>

type ByState = Readonly<Record<'awaiting_approval' | 'scheduled' | 'retrying' | 'queued' | 'running', number>>

export interface LaneSnapshot {
  readonly name: string
  readonly slots: number | null
  readonly perWorker: number | null
  readonly enabled: boolean
  readonly running: number
  /** Jobs that workers have beyond their slots and have not started: neither running nor in `depth`. */
  readonly assigned: number
  readonly held: number
  /** Jobs that could start and wait for a worker: counted now while fewer than 2,000 are queued, else as last sampled. */
  readonly depth: number
  readonly oldestAt: number | null
  readonly reason: string | null
  /** The reason in a few words. */
  readonly blockedBy: string | null
}

export interface DeviceSnapshot {
  readonly budget: string
  readonly key: string
  readonly host: string | null
  readonly name: string
  readonly bytes: boolean
  readonly capacity: number | null
  readonly held: number
  readonly running: number
  readonly measuredUsed: number | null
  readonly lostAt: number | null
  readonly models: readonly ModelSnapshot[]
}

export interface ModelSnapshot {
  /** When it came into this state. Snapshots of earlier programs do not have it. */
  readonly since?: number
  readonly model: string
  readonly worker: string
  readonly state: 'loading' | 'loaded' | 'unloading'
  readonly running: number
}

/** Jobs of a state that are looked at: some milliseconds for all of them. Of failures `snapshot_v1` looks at five times as many. */
const LOOK = COUNTED_FAILURES / 5

const READ = statement('read_snapshot', 'select sluice.snapshot_v1($1) as snapshot')

// Two processes that do the duty at once may keep two: a millisecond apart, they do no harm.
const KEEP = statement(
  'keep_snapshot',
  `with old as (
     delete from sluice.snapshots where at < statement_timestamp() - interval '2 hours'
   )
   insert into sluice.snapshots (snapshot)
   select sluice.snapshot_v1($1) - 'concerns' where not exists (
     select 1 from sluice.snapshots m where m.at > clock_timestamp() - make_interval(secs => $2 / 1000.0))`,
)

const LIST = statement(
  'list_snapshots',
  `select snapshot from sluice.snapshots where at > clock_timestamp() - make_interval(secs => $1 / 1000.0) order by at`,
)

/** How the system stands. Locks nothing. */
export async function readSnapshot(db: Queryable): Promise<SystemSnapshot> {
  return (await db.run<{ snapshot: SystemSnapshot }>(READ, [LOOK]))[0]!.snapshot
}

/** Keeps how the system stands for two hours, unless that was done within the last `everyMs`. */
export async function keepSnapshot(db: Queryable, everyMs: number): Promise<void> {
  await db.run(KEEP, [LOOK, everyMs])
}

/** What was kept within the last `ms`, oldest first. */
export async function listSnapshots(db: Queryable, ms: number): Promise<PastSnapshot[]> {
  return (await db.run<{ snapshot: PastSnapshot }>(LIST, [ms])).map(({ snapshot }) => snapshot)
}
