import { useQuery } from '@tanstack/react-query'
import type { LaneChange } from '../../../../src/client/index.ts'
import { client } from '../../connection.ts'
import { Loading } from '../../parts/notes.tsx'
import { Panel } from '../../parts/panel.tsx'
import { Problem } from '../../parts/problem.tsx'
import { type Column, Table } from '../../parts/table.tsx'
import { Ago } from '../../parts/time.tsx'
import { changeWords } from './change-words.ts'
import type { ShownLane } from './controls.tsx'

const COLUMNS: readonly Column<LaneChange>[] = [
  { id: 'at', head: 'Time', width: '110px', phone: '86px', cell: ({ at }) => <Ago at={at} /> },
  { id: 'who', head: 'Actor', width: '18%', phone: '84px', cell: ({ by }) => by },
  {
    id: 'what',
    head: 'Change',
    wrap: true,
    cell: ({ action, before, after }) => changeWords(action, before, after),
  },
  { id: 'why', head: 'Reason', wrap: true, phone: 'below', cell: ({ reason }) => reason ?? '' },
]

/** Who changed what when. */
export function LaneHistory({ lane }: { lane: ShownLane }) {
  const { data, error, refetch } = useQuery({
    queryKey: ['lanes', lane.name, 'history'],
    queryFn: () => client.laneChanges(lane.name, { limit: 50 }),
  })
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
          rows={data}
          rowKey={({ id }) => id}
          empty={<p className="soft lane-no-history">No changes within the retention period.</p>}
        />
      )}
    </Panel>
  )
}
