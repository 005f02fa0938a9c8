import { useQuery } from '@tanstack/react-query'
import type { Firing, Schedule } from '../../../../src/client/index.ts'
import { because, client } from '../../connection.ts'
import { useAsk } from '../../parts/ask.tsx'
import { Button } from '../../parts/controls.tsx'
import { count } from '../../parts/count.ts'
import { JsonView } from '../../parts/json-view.tsx'
import { JobLink } from '../../parts/link.tsx'
import { Empty, Loading } from '../../parts/notes.tsx'
import { Facts, Panel } from '../../parts/panel.tsx'
import { Problem } from '../../parts/problem.tsx'
import { type Column, Table } from '../../parts/table.tsx'
import { Ago, Duration, Moment } from '../../parts/time.tsx'
import { refreshSchedules, ScheduleButtons, useMayChange } from './actions.tsx'
import { cronWords } from './cron-words.ts'

const FIRINGS = 20
/** The zone that moments on this page are in; the schedule may have another. */
const HERE = Intl.DateTimeFormat().resolvedOptions().timeZone

/** One schedule: its settings, when it fires next, and what became of its ticks. */
export function ScheduleDetails({ schedule, onClose }: { schedule: Schedule; onClose: () => void }) {
  const { name } = schedule
  const firings = useQuery({
    queryKey: ['schedules', name, 'firings'],
    queryFn: () => client.listFirings(name, { limit: FIRINGS }),
    refetchInterval: 5000,
  })
  return (
    <>
      <Panel
        title={name}
        aside={
          <span className="schedule-buttons">
            <ScheduleButtons schedule={schedule} />
            <ResetButton schedule={schedule} />
            <Button small kind="quiet" onClick={onClose}>
              Close
            </Button>
          </span>
        }
      >
        <Facts facts={factsOf(schedule)} />
        <div className="schedule-sides">
          <div>
            <h3>Input</h3>
            <JsonView label="Input" value={schedule.input} />
          </div>
          <div>
            <h3>
              Next 10 runs <span className="soft">({schedule.timezone})</span>
            </h3>
            <NextTicks schedule={schedule} />
          </div>
        </div>
      </Panel>
      <Panel title="Past runs" flush>
        <Problem error={firings.error} />
        {firings.data === undefined ? (
          <Loading lines={4} />
        ) : (
          <Table
            label={`Past runs of ${name}`}
            columns={COLUMNS}
            rows={firings.data}
            rowKey={({ id }) => id}
            empty={<Empty title="No runs yet" />}
          />
        )}
      </Panel>
    </>
  )
}

/** By the clock of the schedule's zone; the exact moment in the reader's on hover. */
function NextTicks({ schedule: { name, timezone, enabled, cron } }: { schedule: Schedule }) {
  const { data, error } = useQuery({
    queryKey: ['schedules', name, 'next', cron, timezone],
    queryFn: () => client.nextFirings(name),
    refetchInterval: 30_000,
  })
  if (data === undefined) return error === null ? <Loading lines={9} /> : <Problem error={error} />
  const clock = new Intl.DateTimeFormat(undefined, {
    timeZone: timezone,
    weekday: 'short',
    month: 'short',
    day: 'numeric',
    hour: '2-digit',
    minute: '2-digit',
  })
  if (data.length === 0) return <p className="soft">This schedule never runs.</p>
  return (
    <>
      {!enabled && <p className="soft">Paused: these runs are skipped.</p>}
      <ol className="schedule-next">
        {data.map((at) => (
          <li key={at.getTime()}>
            <span>{clock.format(at)}</span>
            <span className="soft">
              <Ago at={at} />
            </span>
          </li>
        ))}
      </ol>
    </>
  )
}

function factsOf(schedule: Schedule): Parameters<typeof Facts>[0]['facts'] {
  const { cron, timezone, overlap, catchUp, operatorSet } = schedule
  return [
    ['Runs', `${cronWords(cron)} (${timezone})`],
    ['Cron', <code key="cron">{cron}</code>],
    ['Submits', schedule.workflow === null ? (schedule.task ?? '–') : `workflow ${schedule.workflow}`],
    ['Owner of its jobs', schedule.owner],
    ['Lane', schedule.lane ?? 'lane of the task'],
    ['Deadline', schedule.deadlineMs === 0 ? 'None' : <Duration key="deadline" ms={schedule.deadlineMs} />],
    ['While a job still runs', overlap === 'skip' ? 'Skip the run' : 'Submit another job'],
    ['Catch-up after an outage', catchUp === 0 ? 'None' : `Last ${count(catchUp, 'run')}`],
    ['Changed', <Changed key="changed" schedule={schedule} />],
    ['Set by operators', operatorSet.length === 0 ? 'Nothing' : operatorSet.join(', ')],
  ]
}

function Changed({ schedule: { updatedAt, updatedBy } }: { schedule: Schedule }) {
  return (
    <>
      <Ago at={updatedAt} /> by {updatedBy}
    </>
  )
}

/** What an operator has set stays until this: then files and programs speak again. */
function ResetButton({ schedule: { name, declared, operatorSet }, schedule }: { schedule: Schedule }) {
  const ask = useAsk()
  const mayChange = useMayChange(schedule)
  if (!mayChange || !declared || operatorSet.length === 0) return null
  const reset = () =>
    ask({
      title: `Reset schedule ${name}`,
      effect: (
        <p>
          Settings changed by operators return to their values in files or programs: {operatorSet.join(', ')}.
        </p>
      ),
      action: 'Reset schedule',
      run: async (reason) => {
        await because(reason).resetSchedule(name)
        await refreshSchedules()
        return `Reset ${name}`
      },
    })
  return (
    <Button small onClick={reset}>
      Reset…
    </Button>
  )
}

const COLUMNS: readonly Column<Firing>[] = [
  {
    id: 'tick',
    head: `Time (${HERE})`,
    width: '230px',
    phone: '170px',
    cell: ({ tickAt }) => <Moment at={tickAt} />,
  },
  {
    id: 'job',
    head: 'Job',
    width: '24%',
    cell: ({ jobId, attached, skipped }) =>
      jobId === null ? (
        <span className="soft">none: {skipped}</span>
      ) : (
        <span className="in-text">
          <JobLink id={jobId} />
          {attached && <span className="soft"> (existing job)</span>}
        </span>
      ),
  },
  {
    id: 'by',
    head: 'Started by',
    width: '18%',
    phone: 'below',
    cell: ({ askedBy }) => askedBy ?? 'schedule',
  },
  {
    id: 'ticks',
    head: 'Ticks',
    width: '70px',
    align: 'right',
    phone: 'below',
    cell: ({ ticks }) => (ticks >= 1000 ? '1,000+' : ticks.toLocaleString()),
  },
  { id: 'reason', head: 'Reason', phone: 'below', wrap: true, cell: ({ reason }) => reason ?? '' },
]
