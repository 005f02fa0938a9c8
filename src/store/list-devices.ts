import { type Queryable, statement } from '../db/database.ts'
import { roomToShow } from '../model/amount.ts'

/** A device under one budget, with what is drawn from it. A shared budget is one device with the key ''. */
export interface StoredDevice {
  readonly budget: string
  readonly key: string
  readonly host: string | null
  readonly name: string
  /** What it has; null: not known, or without bounds. */
  readonly total: number | null
  /** An operator's. */
  readonly limit: number | null
  /** The smaller of the two. */
  readonly capacity: number | null
  readonly held: number
  /** The part of it that loaded models take. */
  readonly heldByModels: number
  /** What may be drawn now, by what is held and what was measured; null: without bounds. */
  readonly room: number | null
  /** Jobs that draw from it. */
  readonly running: number
  readonly measuredUsed: number | null
  readonly measuredFree: number | null
  readonly measuredAt: Date | null
  /** Of the measurement, by the database's clock. */
  readonly ageMs: number | null
  /** The measurement is new enough to count. */
  readonly fresh: boolean
  /** It was there and is gone. */
  readonly lostAt: Date | null
  /** Attempts that ended because it had too little. */
  readonly outOfMemory: number
  /** Live workers that offer it, by name. */
  readonly workers: readonly string[]
}

const LIST = statement(
  'list_devices',
  `select d.budget, d.key, d.host, d.name, d.total, d.most as "limit", sluice.capacity_v1(d) as capacity,
          h.by_jobs + h.by_models as held, h.by_models as "heldByModels", sluice.device_room_v1(d.budget, d.key) as room, h.running,
          d.measured_used as "measuredUsed", d.measured_free as "measuredFree", d.measured_at as "measuredAt",
          (extract(epoch from clock_timestamp() - d.measured_at) * 1000)::float8 as "ageMs", sluice.is_fresh_v1(d.measured_at) as fresh, d.lost_at as "lostAt",
          d.out_of_memory::float8 as "outOfMemory",
          array(select distinct w.name from sluice.worker_devices o join sluice.workers w on w.id = o.worker_id
                 where o.budget = d.budget and o.device = d.key and w.ended_at is null order by w.name) as workers
     from sluice.devices d
    cross join lateral sluice.device_use_v1(d.budget, d.key) h
    order by d.budget, d.host, d.name, d.key`,
)

export async function listDevices(db: Queryable): Promise<StoredDevice[]> {
  const devices = await db.run<StoredDevice & Record<string, unknown>>(LIST)
  return devices.map((device) => {
    const { room, capacity } = device
    return { ...device, room: room === null ? null : roomToShow(room, capacity) }
  })
}
