import type { LaneOverrides } from '../../../../src/client/index.ts'
import { Button } from '../../parts/controls.tsx'
import { Panel } from '../../parts/panel.tsx'
import { type Column, Table } from '../../parts/table.tsx'
import { Ago } from '../../parts/time.tsx'
import { useSession } from '../../session.tsx'
import { useLaneQuestion } from './controls.tsx'

type Deleted = LaneOverrides['deleted'][number]

const COLUMNS: readonly Column<Deleted>[] = [
  { id: 'lane', head: 'Lane', cell: ({ lane }) => lane },
  { id: 'to', head: 'Tasks and jobs moved to', cell: ({ movedTo }) => movedTo ?? 'none' },
  {
    id: 'when',
    head: 'Deleted',
    phone: 'below',
    cell: ({ at, by }) => (
      <>
        <Ago at={at} /> <span className="soft">by {by}</span>
      </>
    ),
  },
]

/** Lanes that files or programs declare and operators deleted: they can be brought back. */
export function DeletedLanes({ deleted }: { deleted: readonly Deleted[] }) {
  const { may } = useSession()
  if (deleted.length === 0) return null
  return (
    <Panel title="Deleted lanes" flush>
      <Table
        label="Deleted lanes"
        columns={[
          ...COLUMNS,
          ...(may('workers:manage')
            ? [
                {
                  id: 'back',
                  head: <span className="hidden-visually">Actions</span>,
                  width: '170px',
                  phone: '140px',
                  align: 'right' as const,
                  cell: ({ lane }: Deleted) => <ResetLane lane={lane} />,
                },
              ]
            : []),
        ]}
        rows={deleted}
        rowKey={({ lane }) => lane}
      />
    </Panel>
  )
}

function ResetLane({ lane }: { lane: string }) {
  const ask = useLaneQuestion()
  return (
    <Button
      small
      aria-label={`Restore ${lane}…`}
      onClick={() =>
        ask({
          title: `Restore lane ${lane}`,
          effect: 'The lane is restored as files and programs declare it, with its tasks.',
          action: 'Restore lane',
          run: (voice) => voice.resetLane(lane),
          done: `Restored lane ${lane}`,
        })
      }
    >
      Restore…
    </Button>
  )
}
