import type { Caller } from '../engine/access/caller.ts'
import { SluiceError } from '../errors.ts'

/** The highest priority that everybody who submits may give. Above it somebody could keep all others waiting. */
const HIGHEST_PRIORITY = 100

/** @throws {SluiceError} `FORBIDDEN` for a priority that the caller may not give. */
export function checkPriorityOf(caller: Caller, priority: number | null | undefined): void {
  if (priority == null || priority <= HIGHEST_PRIORITY || caller.may('jobs:prioritise')) return
  throw new SluiceError(
    'FORBIDDEN',
    `priority: the role ${caller.role} may give at most ${HIGHEST_PRIORITY}, not ${priority}: above it a key needs jobs:prioritise`,
    {
      details: {
        role: caller.role,
        needs: ['jobs:prioritise'],
        argument: 'priority',
        most: HIGHEST_PRIORITY,
      },
    },
  )
}
