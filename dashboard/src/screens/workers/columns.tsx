import { JobLink } from '../../parts/link.tsx'
import { Meter } from '../../parts/meter.tsx'
import type { Column } from '../../parts/table.tsx'
import { Ago } from '../../parts/time.tsx'
import { type WorkerActions, WorkerButtons } from './actions.tsx'
import { labelWords, type StatusWorker, WorkerState } from './state.tsx'

/** With `act` there is a column of buttons: for those who may use them. What no worker has, or all have, gets no column. */
export function workerColumns(
  act: WorkerActions | undefined,
  workers: readonly StatusWorker[],
): readonly Column<StatusWorker>[] {
  const pools = workers.some(({ pool }) => pool !== null)
  const mixed = new Set(workers.map(({ version, build }) => build ?? version)).size > 1
  // Beside pools and versions they would take the room of what runs; who opens a worker finds them.
  const labelled = !(pools && mixed) && workers.some(({ labels }) => Object.keys(labels).length > 0)
  const columns: Column<StatusWorker>[] = [
    {
      id: 'name',
      head: 'Worker',
      width: pools || labelled ? '15%' : '22%',
      cell: ({ name, host }) => (
        <span title={`${name} on ${host}`}>
          {name}
          <span className="soft"> {host}</span>
        </span>
      ),
    },
    ...(pools
      ? [
          {
            id: 'pool',
            head: 'Pool',
            width: '9%',
            phone: 'below',
            wrap: true,
            cell: ({ pool }: StatusWorker) => pool ?? '',
          },
        ]
      : []),
    { id: 'state', head: 'State', width: '116px', cell: (worker) => <WorkerState worker={worker} /> },
    {
      id: 'slots',
      head: 'Capacity',
      width: '108px',
      cell: ({ name, running, capacity }) => (
        <span className="worker-slots">
          <Meter
            label={`Capacity of ${name}`}
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
    { id: 'jobs', head: 'Jobs', phone: 'below', wrap: true, cell: ({ jobs }) => <CurrentJobs jobs={jobs} /> },
    {
      id: 'heard',
      head: 'Heartbeat',
      width: '92px',
      phone: 'below',
      cell: ({ seenAt }) => <Ago at={seenAt} />,
    },
    ...(mixed
      ? [
          {
            id: 'version',
            head: 'Version',
            width: '96px',
            phone: false,
            cell: ({ version, build }: StatusWorker) => (
              <span title={build ?? undefined}>{build ?? version}</span>
            ),
          },
        ]
      : []),
    ...(labelled
      ? [
          {
            id: 'labels',
            head: 'Labels',
            width: '12%',
            phone: false,
            cell: ({ labels }: StatusWorker) => {
              const words = labelWords(labels).join(', ')
              return words === '' ? <span className="soft">–</span> : <span title={words}>{words}</span>
            },
          },
        ]
      : []),
  ]
  if (act === undefined) return columns
  return [
    ...columns,
    {
      id: 'actions',
      head: <span className="hidden-visually">Actions</span>,
      width: '200px',
      align: 'right',
      phone: 'below',
      cell: (worker) => <WorkerButtons worker={worker} act={act} />,
    },
  ]
}

function CurrentJobs({ jobs }: { jobs: StatusWorker['jobs'] }) {
  const [first, ...rest] = jobs
  if (first === undefined) return <span className="soft">–</span>
  return (
    <span className="in-text clamp">
      <JobLink id={first.id} /> {first.task}
      {rest.length > 0 && <span className="soft"> and {rest.length.toLocaleString()} more</span>}
    </span>
  )
}
