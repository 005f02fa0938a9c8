import type { Queryable } from '../../db/database.ts'
import type { Attention } from '../../model/attention.ts'
import { COUNTED_FAILURES } from '../../model/limits.ts'
import { countFailures } from '../../store/count-failures.ts'
import {
  type LaneSnapshot,
  listSnapshots,
  type PastSnapshot,
  type SystemSnapshot,
} from '../../store/read-snapshot.ts'
import { findAttention } from './find-attention.ts'

/** How the system stands, as people are shown it. */
export interface Now
  extends Omit<
    SystemSnapshot,
    'at' | 'admission' | 'lanes' | 'failed' | 'recovered' | 'refused' | 'devices' | 'concerns'
  > {
  readonly at: Date
  readonly admission: SystemSnapshot['admission'] & {
    readonly refusedPerMinute: number
    /** Seconds that a refused caller would be told now; `null`: there is room. */
    readonly retryAfter: number | null
  }
  readonly lanes: readonly (Omit<LaneSnapshot, 'oldestAt'> & {
    readonly oldestAt: Date | null
    readonly waitedMs: number
  })[]
  readonly devices: readonly (Omit<SystemSnapshot['devices'][number], 'lostAt'> & {
    readonly lostAt: Date | null
  })[]
  readonly failedPerMinute: number
  readonly failedLastHour: number
  readonly recoveredPerMinute: number
  readonly recoveredLastHour: number
  readonly lateWritesLastHour: number
  readonly driftLastHour: number
  /** What needs attention, worst first. */
  readonly findings: readonly Attention[]
}

/** One point of the lines that people are shown. */
export interface SeriesPoint {
  readonly at: Date
  readonly active: number | null
  readonly lanes: readonly (Pick<LaneSnapshot, 'name' | 'running' | 'held' | 'depth'> & {
    readonly waitedMs: number
  })[]
  readonly workers: Pick<SystemSnapshot['workers'], 'live' | 'busy' | 'running'>
  readonly recoveredPerMinute: number
  readonly refusedPerMinute: number
}

/** Jobs that failed in the minute up to `at`, and have not been run again. */
export interface FailuresOfMinute {
  readonly at: Date
  /** `null`: there have been so many since that nobody looks further. */
  readonly failed: number | null
}

export interface Series {
  readonly points: readonly SeriesPoint[]
  readonly failures: readonly FailuresOfMinute[]
}

/** As those who are refused are told: never longer than a minute, since rates change. */
const LONGEST_RETRY = 60
const UNKNOWN_RETRY = 5
/** From one point to the next. */
export const SERIES_MS = 10_000

export async function readNow(db: Queryable): Promise<Now> {
  const { moment, findings } = await findAttention(db)
  return toNow(moment, findings)
}

function toNow(moment: SystemSnapshot, findings: readonly Attention[]): Now {
  const { at, admission, lanes, devices, failed, recovered, refused, concerns: _, ...rest } = moment
  return {
    ...rest,
    at: new Date(at),
    admission: { ...admission, refusedPerMinute: refused, retryAfter: retryAfter(admission) },
    lanes: lanes.map((lane) => ({
      ...lane,
      oldestAt: lane.oldestAt === null ? null : new Date(lane.oldestAt),
      waitedMs: waitedMs(at, lane),
    })),
    devices: devices.map((device) => ({
      ...device,
      lostAt: device.lostAt === null ? null : new Date(device.lostAt),
    })),
    failedPerMinute: failed.minute,
    failedLastHour: failed.hour,
    recoveredPerMinute: recovered.minute,
    recoveredLastHour: recovered.hour,
    lateWritesLastHour: recovered.lateWrites,
    driftLastHour: recovered.drift,
    findings,
  }
}

function retryAfter({ maxActive, active, drainRate }: SystemSnapshot['admission']): number | null {
  if (maxActive === null || active === null || active < maxActive) return null
  if (drainRate < 0.001) return UNKNOWN_RETRY
  return Math.max(1, Math.min(LONGEST_RETRY, Math.ceil((active - maxActive + 1) / drainRate)))
}

function waitedMs(at: number, { oldestAt }: LaneSnapshot): number {
  return oldestAt === null ? 0 : Math.max(0, at - oldestAt)
}

/**
 * How the system stood in the last minutes, oldest first: a point every 10 s while something ran or waited; and the failures
 * of each minute, whether anybody looked then or not.
 */
export async function readSeries(db: Queryable, minutes: number): Promise<Series> {
  const points = (await listSnapshots(db, minutes * 60_000)).map(toPoint)
  const counted = await countFailures(db, minutes, COUNTED_FAILURES)
  return { points, failures: failuresOf(counted, minutes) }
}

/** A value for each minute back from now, oldest first. What lies before the oldest failure looked at is not known. */
function failuresOf(
  { now, minutes: found, looked }: Awaited<ReturnType<typeof countFailures>>,
  minutes: number,
): FailuresOfMinute[] {
  const cut = looked < COUNTED_FAILURES ? minutes : Math.max(...found.map(({ ago }) => ago))
  return Array.from({ length: minutes }, (_, place) => {
    const ago = minutes - 1 - place
    const failed = found.filter((each) => each.ago === ago).reduce((sum, each) => sum + each.failed, 0)
    return { at: new Date(now.getTime() - ago * 60_000), failed: ago === 0 || ago < cut ? failed : null }
  })
}

function toPoint({ at, admission, lanes, workers, recovered, refused }: PastSnapshot): SeriesPoint {
  return {
    at: new Date(at),
    active: admission.active,
    lanes: lanes
      .filter(({ running, held, depth }) => running + held + depth > 0)
      .map((lane) => ({
        name: lane.name,
        running: lane.running,
        held: lane.held,
        depth: lane.depth,
        waitedMs: waitedMs(at, lane),
      })),
    workers: { live: workers.live, busy: workers.busy, running: workers.running },
    recoveredPerMinute: recovered.minute,
    refusedPerMinute: refused,
  }
}
