import type { Queryable } from '../../db/database.ts'
import { type DeviceSnapshot, listSnapshots, type PastSnapshot } from '../../store/read-snapshot.ts'
import { SERIES_MS } from './now.ts'

/** A model on a device for a time. */
export interface ModelSpan {
  readonly model: string
  readonly worker: string
  readonly state: 'loading' | 'loaded' | 'unloading'
  readonly since: Date
  readonly until: Date
  /** The most jobs that ran on it at once. */
  readonly jobs: number
}

export interface DevicePoint {
  readonly at: Date
  readonly held: number
  readonly measuredUsed: number | null
  readonly running: number
}

export interface DeviceHistory
  extends Pick<DeviceSnapshot, 'budget' | 'key' | 'host' | 'name' | 'bytes' | 'capacity'> {
  readonly points: readonly DevicePoint[]
  readonly spans: readonly ModelSpan[]
}

/** Two looks further apart are not taken for one time: nothing ran in between, or nobody looked. */
const GAP_MS = 3 * SERIES_MS

/** Of each device, unless more are asked for: as many as a chart has room for. All of 64 GPUs in half an hour were 1 MB. */
export const DEVICE_POINTS = 60

/**
 * What was on each device in the last minutes, as sampled every 10 s: shorter stays may be missing.
 *
 * @param mostPoints Of each device. Where there were more, each stands for as many looks, with the most that was held.
 */
export async function readDeviceHistory(
  db: Queryable,
  minutes: number,
  mostPoints: number = DEVICE_POINTS,
): Promise<DeviceHistory[]> {
  return devicesOver(await listSnapshots(db, minutes * 60_000), mostPoints)
}

/** @param moments Oldest first. */
export function devicesOver(
  moments: readonly PastSnapshot[],
  mostPoints: number = DEVICE_POINTS,
): DeviceHistory[] {
  const devices = new Map<string, DeviceDraft>()
  for (const { at, devices: seen } of moments) {
    for (const device of seen) {
      const name = JSON.stringify([device.budget, device.key])
      const draft = devices.get(name) ?? new DeviceDraft()
      devices.set(name, draft)
      draft.see(at, device)
    }
  }
  return [...devices.values()].map((draft) => draft.history(mostPoints))
}

/** Of each stretch the point at which most was held, the latest of them where several are alike; the last stretch may be short. */
function thinOut(points: readonly DevicePoint[], most: number): readonly DevicePoint[] {
  if (points.length <= most) return points
  if (most === 0) return []
  const stretch = Math.ceil(points.length / most)
  return Array.from({ length: Math.ceil(points.length / stretch) }, (_, at) =>
    points
      .slice(at * stretch, (at + 1) * stretch)
      .reduce((peak, point) => (point.held >= peak.held ? point : peak)),
  )
}

interface OpenSpan {
  readonly model: string
  readonly worker: string
  readonly state: ModelSpan['state']
  readonly since: number
  until: number
  jobs: number
}

class DeviceDraft {
  #last: DeviceSnapshot | undefined
  readonly #points: DevicePoint[] = []
  readonly #spans: OpenSpan[] = []
  readonly #open = new Map<string, OpenSpan>()

  see(at: number, device: DeviceSnapshot): void {
    const { held, measuredUsed, running, models } = device
    this.#last = device
    this.#points.push({ at: new Date(at), held, measuredUsed, running })
    for (const { model, worker, state, running: jobs, since = at } of models) {
      const name = JSON.stringify([model, worker, state])
      let span = this.#open.get(name)
      // While nothing runs, nothing is sampled: a copy that has been in its state all the time has stayed.
      const stayed = span !== undefined && (since <= span.until || at - span.until <= GAP_MS)
      if (span === undefined || !stayed) {
        span = { model, worker, state, since: Math.min(since, at), until: at, jobs }
        this.#open.set(name, span)
        this.#spans.push(span)
      }
      span.until = at
      span.jobs = Math.max(span.jobs, jobs)
    }
  }

  history(mostPoints: number): DeviceHistory {
    const { budget, key, host, name, bytes, capacity } = this.#last!
    return {
      budget,
      key,
      host,
      name,
      bytes,
      capacity,
      points: thinOut(this.#points, mostPoints),
      spans: this.#spans.map((span) => ({
        ...span,
        since: new Date(span.since),
        until: new Date(span.until),
      })),
    }
  }
}
