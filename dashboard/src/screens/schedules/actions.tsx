import type { Schedule } from '../../../../src/client/index.ts'
import { because, queries } from '../../connection.ts'
import { useAsk } from '../../parts/ask.tsx'
import { Button } from '../../parts/controls.tsx'
import { useGo } from '../../parts/link.tsx'
import { useSession } from '../../session.tsx'

export function refreshSchedules(): Promise<void> {
  return queries.invalidateQueries({ queryKey: ['schedules'] })
}

/** Own ones may be changed by whoever may submit, all of them by whoever manages. */
export function useMayChange(schedule: Schedule): boolean {
  const { session, may } = useSession()
  return may('jobs:submit') && (may('workers:manage') || schedule.owner === session.name)
}

export function ScheduleButtons({ schedule }: { schedule: Schedule }) {
  const { name, enabled } = schedule
  const ask = useAsk()
  const go = useGo()
  const mayChange = useMayChange(schedule)
  if (!mayChange) return null
  const runNow = () =>
    ask({
      title: `Run ${name} now`,
      effect: (
        <p>
          Submits one job of {schedule.workflow === null ? schedule.task : `workflow ${schedule.workflow}`}{' '}
          with the schedule's input{enabled ? '' : ', although the schedule is paused'}. Regular runs are not
          affected.
        </p>
      ),
      action: 'Submit job',
      run: async (reason) => {
        const job = await because(reason).fireSchedule(name)
        await refreshSchedules()
        go(`/jobs/${job.id}`)
        return job.attached ? `Job #${job.id} already exists` : `Submitted job #${job.id}`
      },
    })
  const pause = () =>
    ask({
      title: enabled ? `Pause schedule ${name}` : `Resume schedule ${name}`,
      effect: (
        <p>
          {enabled
            ? 'The schedule submits no jobs until it is resumed. Jobs already submitted keep running. Files and programs do not undo the pause.'
            : 'The schedule submits jobs again, starting with its next run. Missed runs are not made up.'}
        </p>
      ),
      action: enabled ? 'Pause schedule' : 'Resume schedule',
      run: async (reason) => {
        await because(reason).setSchedule(name, { enabled: !enabled })
        await refreshSchedules()
        return enabled ? `Paused ${name}` : `Resumed ${name}`
      },
    })
  return (
    <span className="schedule-buttons">
      <Button small aria-label={`Run now: ${name}`} onClick={runNow}>
        Run now…
      </Button>
      <Button small aria-label={`${enabled ? 'Pause' : 'Resume'} ${name}`} onClick={pause}>
        {enabled ? 'Pause…' : 'Resume…'}
      </Button>
    </span>
  )
}
