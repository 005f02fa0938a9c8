import type { Budgets } from '../../../../src/client/index.ts'
import { To } from '../../parts/link.tsx'
import { Empty } from '../../parts/notes.tsx'
import { type Column, Table } from '../../parts/table.tsx'
import { Ago, Duration } from '../../parts/time.tsx'
import { WHY_WORDS, withoutTime } from './why-words.ts'

type Queue = Budgets['queues'][number]

/** The server counts no further. */
const EXACT = 1000

const COLUMNS: readonly Column<Queue>[] = [
  {
    id: 'task',
    head: 'Task',
    width: '20%',
    cell: ({ task }) => (
      <To path="/jobs" search={{ tab: 'queued', task }}>
        {task}
      </To>
    ),
  },
  { id: 'model', head: 'Model', width: '16%', phone: 'below', cell: ({ model }) => model ?? '–' },
  {
    id: 'depth',
    head: 'Waiting',
    width: '90px',
    align: 'right',
    cell: ({ depth }) => (depth >= EXACT ? `${EXACT.toLocaleString()}+` : depth.toLocaleString()),
  },
  {
    id: 'waited',
    head: 'Oldest wait',
    width: '110px',
    align: 'right',
    phone: 'below',
    cell: ({ waitedMs }) => <Duration ms={waitedMs} />,
  },
  {
    id: 'why',
    head: 'Blocked by',
    wrap: true,
    cell: ({ why, reason, until }) => (
      <>
        <strong>{WHY_WORDS[why]}</strong>: {withoutTime(reason)}
        {until !== null && (
          <>
            {' '}
            <span className="soft">
              (starts <Ago at={until} />)
            </span>
          </>
        )}
      </>
    ),
  },
]

export function Queues({ queues }: { queues: readonly Queue[] }) {
  return (
    <Table
      label="Jobs waiting for budgets"
      columns={COLUMNS}
      rows={queues}
      rowKey={({ lane, task }) => `${lane} ${task}`}
      empty={<Empty title="No jobs are waiting" />}
    />
  )
}
