import { type Queryable, statement } from '../db/database.ts'
import type { DeviceBudget, DeviceReading } from '../model/device.ts'

const REPORT = statement(
  'report_devices',
  'select name, auto, declared from sluice.report_devices_v1($1, $2)',
)

/** Stores all the devices a worker offers, as it sees them; an empty list is only a question. Gives the budgets that have devices. */
export async function reportDevices(
  db: Queryable,
  workerId: string,
  readings: readonly DeviceReading[],
): Promise<DeviceBudget[]> {
  return db.run<DeviceBudget & Record<string, unknown>>(REPORT, [workerId, JSON.stringify(readings)])
}
