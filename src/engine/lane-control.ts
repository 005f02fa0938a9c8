import type { Queryable } from '../db/database.ts'
import { SluiceError } from '../errors.ts'
import { checkOptions, checkText, invalidArgument } from '../model/argument.ts'
import { isName, type Reader } from '../model/setting-value.ts'
import { LANE_COLUMNS, LANE_FIELDS, type LaneSource } from '../model/settings.ts'
import { changeLane, type LaneChange } from '../store/change-lane.ts'
import { type LaneChangeView, listLaneChanges } from '../store/list-lane-changes.ts'
import { type Lane, listLanes } from '../store/list-lanes.ts'
import { readSettings } from '../store/read-settings.ts'
import { resetLane } from '../store/reset-lane.ts'

/** An operator's change to a lane. Takes effect for every cycle that begins afterwards; what runs is left alone. */
export async function setLane(db: Queryable, name: string, change: LaneSource, by: string): Promise<Lane> {
  const checked = await checkChange(db, change)
  if (!isName(checkText(name, 'lane')) || !(await changeLane(db, name, checked, by, true)))
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

/** What operators change of a lane, as the audit has it. */
export function laneLimits({ slots, perWorker, pollMs, staleMs, ageingMs, enabled, placement }: Lane) {
  return { slots, perWorker, pollMs, staleMs, ageingMs, enabled, placement }
}

const NEWEST = '9223372036854775807'

/**
 * What operators changed of a lane, newest first; 20 unless `limit` says otherwise.
 *
 * @throws {SluiceError} `UNKNOWN_LANE`.
 */
export async function readLaneChanges(
  db: Queryable,
  name: string,
  { before = NEWEST, limit = 20 }: { readonly before?: string; readonly limit?: number } = {},
): Promise<LaneChangeView[]> {
  const lane = await getLane(db, name)
  return listLaneChanges(db, lane.name, before, limit)
}

/** @throws {SluiceError} `INVALID_ARGUMENT` naming the field; the bounds are those of the config file. */
async function checkChange(db: Queryable, change: LaneSource): Promise<LaneChange> {
  checkOptions(change, Object.keys(LANE_FIELDS), 'change')
  const read: Record<string, unknown> = {}
  for (const [field, value] of Object.entries(change) as [keyof typeof LANE_FIELDS, unknown][]) {
    if (value === undefined) continue
    const reader: Reader<unknown, unknown> = LANE_FIELDS[field]
    const stored = reader.read(value)
    if (stored === undefined) throw invalidArgument(field, value, reader.expected)
    read[LANE_COLUMNS[field]] = stored
  }
  const checked: LaneChange = read
  if (checked.staleMs === undefined) return checked
  const { heartbeatMs } = await readSettings(db)
  if (checked.staleMs > 2 * heartbeatMs) return checked
  throw new SluiceError(
    'INVALID_ARGUMENT',
    `stale: ${checked.staleMs} ms must be greater than twice the heartbeat (${heartbeatMs} ms): set it above ${2 * heartbeatMs} ms`,
  )
}

async function unknownLane(db: Queryable, name: string): Promise<SluiceError> {
  const names = (await listLanes(db)).map((each) => each.name).join(', ')
  return new SluiceError('UNKNOWN_LANE', `there is no lane ${JSON.stringify(name)}; there are ${names}`, {
    details: { name },
  })
}
