import type { Queryable } from '../db/database.ts'
import { type LaneMoment, listMoments, type Moment, readMoment } from '../store/read-moment.ts'

/** How the system stands, as people are shown it. */
export interface Now
  extends Omit<Moment, 'at' | 'admission' | 'lanes' | 'failed' | 'recovered' | 'refused' | 'devices'> {
  readonly at: Date
  readonly admission: Moment['admission'] & {
    readonly refusedPerMinute: number
    /** Seconds that a refused caller would be told now; `null`: there is room. */
    readonly retryAfter: number | null
  }
  readonly lanes: readonly (Omit<LaneMoment, 'oldestAt'> & {
    readonly oldestAt: Date | null
    readonly waitedMs: number
  })[]
  readonly devices: readonly (Omit<Moment['devices'][number], 'lostAt'> & { readonly lostAt: Date | null })[]
  readonly failedPerMinute: number
  readonly failedLastHour: number
  readonly recoveredPerMinute: number
  readonly recoveredLastHour: number
  readonly lateWritesLastHour: number
  readonly driftLastHour: number
}

/** One point of the lines that people are shown. */
export interface SeriesPoint {
  readonly at: Date
  readonly active: number | null
  readonly lanes: readonly (Pick<LaneMoment, 'name' | 'running' | 'held' | 'depth'> & {
    readonly waitedMs: number
  })[]
  readonly workers: Pick<Moment['workers'], 'live' | 'busy' | 'running'>
  readonly failedPerMinute: number
  readonly recoveredPerMinute: number
  readonly refusedPerMinute: number
}

/** As those who are refused are told: never longer than a minute, since rates change. */
const LONGEST_RETRY = 60
const UNKNOWN_RETRY = 5
/** From one point to the next. */
export const SERIES_MS = 10_000

export async function readNow(db: Queryable): Promise<Now> {
  return toNow(await readMoment(db))
}

export function toNow(moment: Moment): Now {
  const { at, admission, lanes, devices, failed, recovered, refused, ...rest } = moment
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
  }
}

function retryAfter({ maxActive, active, drainRate }: Moment['admission']): number | null {
  if (maxActive === null || active === null || active < maxActive) return null
  if (drainRate < 0.001) return UNKNOWN_RETRY
  return Math.max(1, Math.min(LONGEST_RETRY, Math.ceil((active - maxActive + 1) / drainRate)))
}

function waitedMs(at: number, { oldestAt }: LaneMoment): number {
  return oldestAt === null ? 0 : Math.max(0, at - oldestAt)
}

/** How the system stood in the last minutes, oldest first: a point every 10 s while something ran or waited. */
export async function readSeries(db: Queryable, minutes: number): Promise<SeriesPoint[]> {
  return (await listMoments(db, minutes * 60_000)).map(toPoint)
}

function toPoint({ at, admission, lanes, workers, failed, recovered, refused }: Moment): SeriesPoint {
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
    failedPerMinute: failed.minute,
    recoveredPerMinute: recovered.minute,
    refusedPerMinute: refused,
  }
}
