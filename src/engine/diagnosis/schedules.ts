import type { Queryable } from '../../db/database.ts'
import { Ticks } from '../../model/cron.ts'
import { knownNames } from '../../store/known-names.ts'
import { readServerState } from '../../store/read-server-state.ts'
import { type ScheduleView, viewSchedules } from '../schedules/schedules.ts'
import { type Finding, ok } from './finding.ts'

/**
 * Schedules that would be rejected, or that differ from files. attention.ts reports those that fail or are overdue.
 */
export async function checkSchedules({ db }: { db: Queryable }): Promise<Finding[]> {
  const schedules = await viewSchedules(db)
  if (schedules.length === 0) return [ok('schedules', 'none exist')]
  const known = await knownNames(db)
  const now = (await readServerState(db)).now.getTime()
  const found = schedules.flatMap((schedule) => [
    ...unknownTarget(schedule, known),
    ...changed(schedule),
    ...waitsForClock(schedule, now),
  ])
  return found.length > 0
    ? found
    : [ok('schedules', `${schedules.length}; each runs a registered task or workflow`)]
}

function unknownTarget(
  { name, enabled, task, workflow }: ScheduleView,
  known: Awaited<ReturnType<typeof knownNames>>,
): Finding[] {
  if (!enabled) return []
  const check = `schedule ${name}`
  if (task !== null ? known.tasks.includes(task) : known.workflows.includes(workflow!)) return []
  const what = task !== null ? `task ${task}` : `workflow ${workflow}`
  const advice = 'start a program that registers it'
  return [{ check, level: 'warning', found: `runs ${what}, which no program has registered`, advice }]
}

/** A schedule that names hours does not fire again at times that recur after the clock was set back. */
function waitsForClock({ name, enabled, cron, timezone, nextAt }: ScheduleView, now: number): Finding[] {
  if (!enabled || nextAt === null) return []
  const next = new Ticks(cron, timezone).next(now)
  if (next === undefined || next >= nextAt.getTime()) return []
  return [
    {
      check: `schedule ${name}`,
      level: 'note',
      found: `fires next at ${nextAt.toISOString()}: the times before that have fired, and the clock of PostgreSQL has been set back since`,
      advice: `sluice schedules fire ${name} fires it now`,
    },
  ]
}

function changed({ name, declared, operatorSet, updatedBy }: ScheduleView): Finding[] {
  if (!declared || operatorSet.length === 0) return []
  return [
    {
      check: `schedule ${name}`,
      level: 'note',
      found: `${operatorSet.join(', ')} set by an operator, last changed by ${updatedBy}: files do not override it`,
      advice: `sluice schedules reset ${name} restores what they declare`,
    },
  ]
}
