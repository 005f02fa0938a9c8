import type { Queryable } from '../../db/database.ts'
import type { Caller } from '../../engine/access/caller.ts'
import { smallestInterval } from '../../engine/schedules/schedules.ts'
import { SluiceError } from '../../errors.ts'
import { shortestInterval } from '../../model/cron.ts'
import { formatDuration } from '../../model/duration.ts'

/**
 * @param cron One that a schedule has been stored with: the refusal undoes it.
 * @throws {SluiceError} `FORBIDDEN` for a schedule that fires more often than the caller may have it.
 */
export async function checkIntervalOf(caller: Caller, db: Queryable, cron: string): Promise<void> {
  if (caller.may('workers:manage')) return
  const leastMs = await smallestInterval(db)
  const shortestMs = shortestInterval(cron)
  if (shortestMs >= leastMs) return
  const least = formatDuration(leastMs)
  throw new SluiceError(
    'FORBIDDEN',
    `cron: with the role ${caller.role} the ticks of a schedule must be at least ${least} apart, but ${JSON.stringify(cron)} fires every ${formatDuration(shortestMs)}: ask somebody with workers:manage, or change scheduleInterval`,
    { details: { role: caller.role, needs: ['workers:manage'], argument: 'cron', least } },
  )
}
