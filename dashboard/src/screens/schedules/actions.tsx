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
      title: `Run ${name} now?`,
      effect: (
        <p>
          One job of {schedule.workflow === null ? schedule.task : `workflow ${schedule.workflow}`} is
          submitted with the schedule's input{enabled ? '' : ', though the schedule is paused'}. Its own ticks
          come as before.
        </p>
      ),
      action: 'Run now',
      run: async (reason) => {
        const job = await because(reason).fireSchedule(name)
        await refreshSchedules()
        go(`/jobs/${job.id}`)
        return job.attached ? `Job #${job.id} was there already` : `Job #${job.id} is submitted`
      },
    })
  const pause = () =>
    ask({
      title: enabled ? `Pause ${name}?` : `Resume ${name}?`,
      effect: (
        <p>
          {enabled
            ? 'Its ticks go by without a job until it is resumed. Jobs it has submitted go on. Files and programs do not undo this.'
            : 'Its ticks submit jobs again, from the next on. Those that went by are not made up for.'}
        </p>
      ),
      action: enabled ? 'Pause' : 'Resume',
      run: async (reason) => {
        await because(reason).setSchedule(name, { enabled: !enabled })
        await refreshSchedules()
        return enabled ? `${name} is paused` : `${name} is resumed`
      },
    })
  return (
    <span className="schedule-buttons">
      <Button small aria-label={`Run now: ${name}`} onClick={runNow}>
        Run now
      </Button>
      <Button small aria-label={`${enabled ? 'Pause' : 'Resume'} ${name}`} onClick={pause}>
        {enabled ? 'Pause' : 'Resume'}
      </Button>
    </span>
  )
}
