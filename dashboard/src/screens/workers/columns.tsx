import { JobLink } from '../../parts/link.tsx'
import { Meter } from '../../parts/meter.tsx'
import type { Column } from '../../parts/table.tsx'
import { Ago } from '../../parts/time.tsx'
import { type WorkerActions, WorkerButtons } from './actions.tsx'
import { labelWords, type StatusWorker, WorkerState } from './state.tsx'

/** With `act` there is a column of buttons: for those who may use them. */
export function workerColumns(act: WorkerActions | undefined): readonly Column<StatusWorker>[] {
  const columns: Column<StatusWorker>[] = [
    {
      id: 'name',
      head: 'Worker',
      width: '15%',
      cell: ({ name, host, pool }) => (
        <span title={`${name} on ${host}`}>
          {name}
          <span className="soft"> {pool === null ? host : `${host}, pool ${pool}`}</span>
        </span>
      ),
    },
    { id: 'state', head: 'State', width: '116px', cell: (worker) => <WorkerState worker={worker} /> },
    {
      id: 'slots',
      head: 'Places',
      width: '116px',
      cell: ({ name, running, capacity }) => (
        <span className="worker-slots">
          <Meter
            label={`Places of ${name}`}
            limit={capacity === 0 ? null : capacity}
            parts={[{ label: 'running', value: running, tone: 'running' }]}
          />
          <span className="number">
            {running}
            <span className="soft">/{capacity === 0 ? '∞' : capacity}</span>
          </span>
        </span>
      ),
    },
    { id: 'jobs', head: 'Runs', phone: 'below', cell: ({ jobs }) => <CurrentJobs jobs={jobs} /> },
    {
      id: 'heard',
      head: 'Heartbeat',
      width: '92px',
      phone: 'below',
      cell: ({ seenAt }) => <Ago at={seenAt} />,
    },
    {
      id: 'version',
      head: 'Version',
      width: '96px',
      phone: false,
      cell: ({ version, build }) => <span title={build ?? undefined}>{build ?? version}</span>,
    },
    {
      id: 'labels',
      head: 'Labels',
      width: '11%',
      phone: false,
      cell: ({ labels }) => {
        const words = labelWords(labels).join(', ')
        return words === '' ? <span className="soft">–</span> : <span title={words}>{words}</span>
      },
    },
  ]
  if (act === undefined) return columns
  return [
    ...columns,
    {
      id: 'actions',
      head: <span className="hidden-visually">Actions</span>,
      width: '196px',
      align: 'right',
      phone: 'below',
      cell: (worker) => <WorkerButtons worker={worker} act={act} />,
    },
  ]
}

function CurrentJobs({ jobs }: { jobs: StatusWorker['jobs'] }) {
  const [first, ...rest] = jobs
  if (first === undefined) return <span className="soft">nothing</span>
  return (
    <span className="in-text">
      <JobLink id={first.id} /> {first.task}
      {rest.length > 0 && <span className="soft"> and {rest.length.toLocaleString()} more</span>}
    </span>
  )
}
