import { useQuery } from '@tanstack/react-query'
import { client } from '../../connection.ts'
import { Loading } from '../../parts/notes.tsx'
import { Panel } from '../../parts/panel.tsx'
import { Problem } from '../../parts/problem.tsx'
import { type Column, Table } from '../../parts/table.tsx'
import { Ago } from '../../parts/time.tsx'
import { useSession } from '../../session.tsx'
import { changeWords } from './change-words.ts'
import type { ShownLane } from './controls.tsx'

interface Entry {
  readonly id: string
  readonly at: Date
  readonly actor: string
  readonly action: string
  readonly before: unknown
  readonly after: unknown
  readonly reason: string | null
}

const COLUMNS: readonly Column<Entry>[] = [
  { id: 'at', head: 'When', width: '110px', cell: ({ at }) => <Ago at={at} /> },
  { id: 'who', head: 'Who', width: '18%', cell: ({ actor }) => actor },
  {
    id: 'what',
    head: 'What',
    wrap: true,
    cell: ({ action, before, after }) => changeWords(action, before, after),
  },
  { id: 'why', head: 'Reason', wrap: true, phone: false, cell: ({ reason }) => reason ?? '' },
]

/** Who changed what when, from the audit, for whoever may read that. */
export function LaneHistory({ lane }: { lane: ShownLane }) {
  const { may } = useSession()
  const readable = may('access:manage')
  const { data, error, refetch } = useQuery({
    queryKey: ['lanes', lane.name, 'history'],
    queryFn: () => client.access.readAudit({ target: `lane ${lane.name}`, refused: false }, { limit: 50 }),
    enabled: readable,
  })
  if (!readable) return null
  return (
    <Panel title="Changes" flush>
      {data === undefined ? (
        error === null ? (
          <Loading />
        ) : (
          <Problem error={error} onRetry={() => void refetch()} />
        )
      ) : (
        <Table
          label={`Changes of lane ${lane.name}`}
          columns={COLUMNS}
          rows={data.entries}
          rowKey={({ id }) => id}
          empty={<p className="soft lane-no-history">Nobody has changed it within the retention.</p>}
        />
      )}
    </Panel>
  )
}
