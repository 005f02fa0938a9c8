import { ADMISSION_CHANGES } from './admission.ts'
import { BUDGET_FIELDS } from './budget.ts'
import type { Fields } from './field.ts'
import { LANE_FIELDS } from './lane.ts'
import { POOL_FIELDS } from './pool.ts'
import { SCHEDULE_FIELDS } from './schedule.ts'

/** All that files, programs and operators configure. The reference is generated from it. */
export const REGISTRIES: Readonly<Record<string, Fields>> = {
  lanes: LANE_FIELDS,
  budgets: BUDGET_FIELDS,
  pools: POOL_FIELDS,
  admission: ADMISSION_CHANGES,
  schedules: SCHEDULE_FIELDS,
}
