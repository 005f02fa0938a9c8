import { Button } from '../../parts/controls.tsx'
import { count } from '../../parts/count.ts'
import { Empty } from '../../parts/notes.tsx'
import { Facts, Panel } from '../../parts/panel.tsx'
import { type Column, Table } from '../../parts/table.tsx'
import { Moment } from '../../parts/time.tsx'
import type { Decision } from './fleet.tsx'

type Comer = Decision['workers'][number]

/** One request for workers: why, what the provisioner answered, and for each that came how many jobs it has ended and why it left. */
export function DecisionDetails({ decision, onClose }: { decision: Decision; onClose: () => void }) {
  const { pool, action, count: many, reason, workers, failures } = decision
  return (
    <Panel
      title={`${action === 'start' ? 'Start' : 'Undrain'} ${count(many, 'worker')} of ${pool}`}
      aside={
        <Button small kind="quiet" onClick={onClose}>
          Close
        </Button>
      }
    >
      <Facts
        facts={[
          ['Decided', <Moment key="at" at={decision.decidedAt} />],
          ['Decided by', decision.decidedBy],
          ['Reason', reason],
          ...(decision.started === null ? [] : ([['Started', count(decision.started, 'worker')]] as const)),
          ...(decision.dueAt === null ? [] : ([['Due', <Moment key="due" at={decision.dueAt} />]] as const)),
          ...(decision.endedAt === null
            ? []
            : ([['Settled', <Moment key="ended" at={decision.endedAt} />]] as const)),
          ...(decision.endedWhy === null ? [] : ([['Outcome', decision.endedWhy]] as const)),
          ...failures.map(({ member, message }) => [`Worker ${member} was not started`, message] as const),
        ]}
      />
      <div className="worker-jobs">
        <Table
          label="Workers started"
          columns={COLUMNS}
          rows={workers}
          rowKey={({ id }) => id}
          empty={<Empty title="No worker has started yet" />}
        />
      </div>
    </Panel>
  )
}

const COLUMNS: readonly Column<Comer>[] = [
  { id: 'name', head: 'Worker', width: '26%', wrap: true, cell: ({ name }) => name },
  {
    id: 'came',
    head: 'Arrived',
    width: '130px',
    phone: '92px',
    cell: ({ arrivedAt }) => <Moment at={arrivedAt} />,
  },
  {
    id: 'done',
    head: 'Jobs ended',
    width: '100px',
    phone: '84px',
    align: 'right',
    cell: ({ done }) => done.toLocaleString(),
  },
  {
    id: 'left',
    head: 'Ended',
    width: '130px',
    phone: 'below',
    cell: ({ endedAt }) =>
      endedAt === null ? <span className="soft">running</span> : <Moment at={endedAt} />,
  },
  { id: 'why', head: 'Reason', phone: 'below', wrap: true, cell: ({ endedWhy }) => endedWhy ?? '' },
]
