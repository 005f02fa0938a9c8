import type { Caller } from '../../engine/access/caller.ts'
import { SluiceError } from '../../errors.ts'
import { MAX_COMMON_PRIORITY } from '../../model/limits.ts'

/** The highest priority that the caller may give. */
export function highestPriorityOf(caller: Caller): number {
  return caller.may('jobs:prioritise') ? Number.MAX_SAFE_INTEGER : MAX_COMMON_PRIORITY
}

/** @throws {SluiceError} `FORBIDDEN` for a priority that the caller may not give. */
export function checkPriorityOf(caller: Caller, priority: number | null | undefined): void {
  if (priority == null || priority <= highestPriorityOf(caller)) return
  throw new SluiceError(
    'FORBIDDEN',
    `priority: ${priority} is above ${MAX_COMMON_PRIORITY}, the maximum for the role ${caller.role}: a higher priority requires jobs:prioritise`,
    {
      details: {
        role: caller.role,
        needs: ['jobs:prioritise'],
        argument: 'priority',
        most: MAX_COMMON_PRIORITY,
      },
    },
  )
}
