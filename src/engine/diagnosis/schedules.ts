import type { Queryable } from '../../db/database.ts'
import { formatDuration } from '../../model/duration.ts'
import { LATE_MS } from '../../model/schedule.ts'
import { knownNames } from '../../store/known-names.ts'
import { readClock } from '../../store/read-clock.ts'
import { type Finding, ok } from '../finding.ts'
import { type ScheduleView, viewSchedules } from '../schedules.ts'

/** Schedules that nobody fires, that would be refused, or that are not as files say. */
export async function checkSchedules({ db }: { db: Queryable }): Promise<Finding[]> {
  const schedules = await viewSchedules(db)
  if (schedules.length === 0) return [ok('schedules', 'there are none')]
  const known = await knownNames(db)
  const now = (await readClock(db)).getTime()
  const found = schedules.flatMap((schedule) => [
    ...overdue(schedule, now),
    ...refused(schedule, known),
    ...changed(schedule),
  ])
  return found.length > 0 ? found : [ok('schedules', `${schedules.length}; none is overdue`)]
}

function overdue({ name, nextAt }: ScheduleView, now: number): Finding[] {
  const late = nextAt === null ? 0 : now - nextAt.getTime()
  if (late < LATE_MS) return []
  return [
    {
      check: `schedule ${name}`,
      level: 'problem',
      found: `its tick is overdue by ${formatDuration(Math.round(late / 1000) * 1000)}: nobody fires it`,
      advice: 'start a worker or a server; if one runs, its log says why',
    },
  ]
}

function refused(
  { name, enabled, task, workflow, last }: ScheduleView,
  known: Awaited<ReturnType<typeof knownNames>>,
): Finding[] {
  if (!enabled) return []
  const check = `schedule ${name}`
  if (task !== null ? !known.tasks.includes(task) : !known.workflows.includes(workflow!)) {
    const what = task !== null ? `task ${task}` : `workflow ${workflow}`
    const advice = 'start a program that has it once'
    return [{ check, level: 'warning', found: `runs ${what}, which no program has made known`, advice }]
  }
  if (last?.skipped !== 'refused') return []
  return [
    {
      check,
      level: 'warning',
      found: `its last tick got no job: ${last.reason}`,
      advice: `sluice schedules set ${name} changes it`,
    },
  ]
}

function changed({ name, declared, operatorSet, updatedBy }: ScheduleView): Finding[] {
  if (!declared || operatorSet.length === 0) return []
  return [
    {
      check: `schedule ${name}`,
      level: 'note',
      found: `${operatorSet.join(', ')} set by an operator, last changed by ${updatedBy}: files do not change it`,
      advice: `sluice schedules reset ${name} goes back to what they say`,
    },
  ]
}
