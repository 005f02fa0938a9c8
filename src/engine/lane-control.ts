import type { Queryable } from '../db/database.ts'
import { SluiceError } from '../errors.ts'
import { checkFlag, checkOptions, checkText, invalidArgument } from '../model/argument.ts'
import { isName } from '../model/setting-value.ts'
import { changeLane, type LaneChange } from '../store/change-lane.ts'
import { type Lane, listLanes } from '../store/list-lanes.ts'
import { readSettings } from '../store/read-settings.ts'
import { resetLane } from '../store/reset-lane.ts'

/** An operator's change to a lane. Takes effect for every cycle that begins afterwards; what runs is left alone. */
export async function setLane(db: Queryable, name: string, change: LaneChange, by: string): Promise<Lane> {
  await checkChange(db, change)
  if (!isName(checkText(name, 'lane')) || !(await changeLane(db, name, change, by, true)))
    throw await unknownLane(db, name)
  return getLane(db, name)
}

/** Undoes operators' changes to a lane: it is again as files and programs last said. */
export async function forgetLaneChanges(db: Queryable, name: string, by: string): Promise<Lane> {
  if (!isName(checkText(name, 'lane')) || !(await resetLane(db, name, by))) throw await unknownLane(db, name)
  return getLane(db, name)
}

export async function getLane(db: Queryable, name: string): Promise<Lane> {
  const lane = (await listLanes(db)).find((each) => each.name === name)
  if (lane === undefined) throw await unknownLane(db, name)
  return lane
}

/** What an operator may change, with the bounds of the lanes table. */
const FIELDS: Readonly<Record<keyof LaneChange, { min: number; max: number; none: boolean } | 'flag'>> = {
  slots: { min: 0, max: 2_147_483_647, none: true },
  perWorker: { min: 0, max: 2_147_483_647, none: true },
  pollMs: { min: 10, max: 3_600_000, none: false },
  staleMs: { min: 1, max: 2_147_483_647, none: false },
  ageingMs: { min: 10_000, max: 2_147_483_647, none: true },
  enabled: 'flag',
}

async function checkChange(db: Queryable, change: LaneChange): Promise<void> {
  checkOptions(change, Object.keys(FIELDS), 'change')
  for (const [field, value] of Object.entries(change) as [keyof LaneChange, unknown][]) {
    if (value === undefined) continue
    const rule = FIELDS[field]
    if (rule === 'flag') checkFlag(value, field)
    else if (value !== null || !rule.none) {
      if (!Number.isInteger(value) || Number(value) < rule.min || Number(value) > rule.max) {
        const none = rule.none ? ', or null for none' : ''
        throw invalidArgument(field, value, `a whole number from ${rule.min} to ${rule.max}${none}`)
      }
    }
  }
  if (change.staleMs === undefined) return
  const { heartbeatMs } = await readSettings(db)
  if (change.staleMs <= 2 * heartbeatMs) {
    throw new SluiceError(
      'INVALID_ARGUMENT',
      `stale: ${change.staleMs} ms must be greater than twice the heartbeat (${heartbeatMs} ms): set it above ${2 * heartbeatMs} ms`,
    )
  }
}

async function unknownLane(db: Queryable, name: string): Promise<SluiceError> {
  const names = (await listLanes(db)).map((each) => each.name).join(', ')
  return new SluiceError('UNKNOWN_LANE', `there is no lane ${JSON.stringify(name)}; there are ${names}`, {
    details: { name },
  })
}
