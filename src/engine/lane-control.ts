import type { Queryable } from '../db/database.ts'
import { SluiceError } from '../errors.ts'
import { changeLane, type LaneChange } from '../store/change-lane.ts'
import { type Lane, listLanes } from '../store/list-lanes.ts'
import { readSettings } from '../store/read-settings.ts'
import { rerankLane } from '../store/rerank-lane.ts'
import { resetLane } from '../store/reset-lane.ts'

/** An operator's change to a lane. Takes effect for every cycle that begins afterwards; what runs is left alone. */
export async function setLane(db: Queryable, name: string, change: LaneChange, by: string): Promise<Lane> {
  if (name.includes('\0')) throw await unknownLane(db, name)
  await checkChange(db, change)
  if (!(await changeLane(db, name, change, by, true))) throw await unknownLane(db, name)
  if (change.ageingMs !== undefined) await rerankLane(db, name)
  return getLane(db, name)
}

/** Undoes operators' changes to a lane: it is again as files and programs last said. */
export async function forgetLaneChanges(db: Queryable, name: string, by: string): Promise<Lane> {
  if (!(await resetLane(db, name, by))) throw await unknownLane(db, name)
  return getLane(db, name)
}

export async function getLane(db: Queryable, name: string): Promise<Lane> {
  const lane = (await listLanes(db)).find((each) => each.name === name)
  if (lane === undefined) throw await unknownLane(db, name)
  return lane
}

async function checkChange(db: Queryable, change: LaneChange): Promise<void> {
  const whole = (field: string, value: number | null | undefined, min: number, max = 2_147_483_647) => {
    if (value === undefined || value === null) return
    if (Number.isInteger(value) && value >= min && value <= max) return
    throw new SluiceError(
      'INVALID_ARGUMENT',
      `${field}: ${value} must be a whole number from ${min} to ${max}`,
    )
  }
  whole('slots', change.slots, 0)
  whole('perWorker', change.perWorker, 0)
  whole('poll', change.pollMs, 10, 3_600_000)
  whole('stale', change.staleMs, 1)
  whole('ageing', change.ageingMs, 10_000)
  if (change.staleMs !== undefined) {
    const { heartbeatMs } = await readSettings(db)
    if (change.staleMs <= 2 * heartbeatMs) {
      throw new SluiceError(
        'INVALID_ARGUMENT',
        `stale: ${change.staleMs} ms must be greater than twice the heartbeat (${heartbeatMs} ms): set it above ${2 * heartbeatMs} ms`,
      )
    }
  }
}

async function unknownLane(db: Queryable, name: string): Promise<SluiceError> {
  const names = (await listLanes(db)).map((each) => each.name).join(', ')
  return new SluiceError('UNKNOWN_LANE', `there is no lane ${JSON.stringify(name)}; there are ${names}`, {
    details: { name },
  })
}
