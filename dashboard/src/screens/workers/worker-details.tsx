import { Button } from '../../parts/controls.tsx'
import { JobLink } from '../../parts/link.tsx'
import { Empty } from '../../parts/notes.tsx'
import { Facts, Panel } from '../../parts/panel.tsx'
import { type Column, Table } from '../../parts/table.tsx'
import { Ago, Since } from '../../parts/time.tsx'
import { useSession } from '../../session.tsx'
import { type WorkerActions, WorkerButtons } from './actions.tsx'
import { labelWords, type StatusWorker, WorkerState } from './state.tsx'

type Current = StatusWorker['jobs'][number]

const COLUMNS: readonly Column<Current>[] = [
  { id: 'id', head: 'Job', width: '90px', cell: ({ id }) => <JobLink id={id} /> },
  { id: 'task', head: 'Task', width: '26%', cell: ({ task }) => task },
  { id: 'lane', head: 'Lane', width: '18%', phone: 'below', cell: ({ lane }) => lane },
  { id: 'since', head: 'Running for', width: '90px', cell: ({ startedAt }) => <Since at={startedAt} /> },
  {
    id: 'progress',
    head: 'Progress',
    cell: ({ progress, message, cancelling }) =>
      [
        ...(cancelling ? ['cancelling'] : []),
        ...(progress === null ? [] : [`${Math.round(progress * 100)} %`]),
        ...(message === null ? [] : [message]),
      ].join(', ') || <span className="soft">–</span>,
  },
]

/** One worker: all that is known of it, and what it runs. */
export function WorkerDetails({
  worker,
  act,
  onClose,
}: {
  worker: StatusWorker
  act: WorkerActions
  onClose: () => void
}) {
  const { may } = useSession()
  const labels = labelWords(worker.labels)
  return (
    <Panel
      title={worker.name}
      aside={
        <span className="worker-buttons">
          {may('workers:manage') && <WorkerButtons worker={worker} act={act} />}
          <Button small kind="quiet" onClick={onClose}>
            Close
          </Button>
        </span>
      }
    >
      <Facts
        facts={[
          ['State', <WorkerState key="state" worker={worker} />],
          ...(worker.broken === null ? [] : ([['Cannot start jobs', worker.broken]] as const)),
          ...(worker.withdrawn.length === 0
            ? []
            : ([['Tasks it cannot start', <Withdrawn key="withdrawn" worker={worker} />]] as const)),
          ['Heartbeat', <Ago key="seen" at={worker.seenAt} />],
          ['Started', <Ago key="started" at={worker.startedAt} />],
          ['Host and process', `${worker.host}, ${worker.pid}`],
          ['Version', worker.build === null ? worker.version : `${worker.version}, build ${worker.build}`],
          ['Rank', worker.rank.toLocaleString()],
          ['Pool', worker.pool ?? 'none'],
          ['Labels', labels.length === 0 ? 'none' : labels.join(', ')],
          ['Tasks', worker.tasks.join(', ')],
        ]}
      />
      <div className="worker-jobs">
        <Table
          label={`Jobs of ${worker.name}`}
          columns={COLUMNS}
          rows={worker.jobs}
          rowKey={({ id }) => id}
          empty={<Empty title="No running jobs" />}
        />
      </div>
    </Panel>
  )
}

/** Tasks whose jobs it does not take, since it could not start them. */
function Withdrawn({ worker }: { worker: StatusWorker }) {
  return worker.withdrawn.map(({ task, why, retryAt }) => (
    <p key={task}>
      {task}: {why}; next attempt <Ago at={retryAt} />
    </p>
  ))
}
