import { useQuery } from '@tanstack/react-query'
import type { Lane } from '../../../src/client/index.ts'
import { client } from '../connection.ts'
import { useNowSnapshot } from '../live/now.ts'
import { Button } from '../parts/controls.tsx'
import { LANE_COLUMNS } from '../parts/lane-columns.tsx'
import { useAddress } from '../parts/link.tsx'
import { Empty, Loading } from '../parts/notes.tsx'
import { PageHead, Panel } from '../parts/panel.tsx'
import { Problem } from '../parts/problem.tsx'
import { type Column, Table } from '../parts/table.tsx'
import { Ago } from '../parts/time.tsx'
import { useSession } from '../session.tsx'
import { type ShownLane, SlotsCell, SwitchButton } from './lanes/controls.tsx'
import { DeletedLanes } from './lanes/deleted.tsx'
import { LaneDetails } from './lanes/details.tsx'
import { NewLane } from './lanes/dialogs.tsx'
import './lanes/lanes.css'

/** How much runs at once, and the handles to change it. */
export function Screen() {
  const { search, change } = useAddress()
  const { may } = useSession()
  const lanes = useLanes()
  const { data: overrides } = useQuery({
    queryKey: ['lanes', 'overrides'],
    queryFn: () => client.laneOverrides(),
    refetchInterval: 10_000,
  })
  if (lanes.rows === undefined)
    return lanes.error === null ? (
      <Loading lines={8} />
    ) : (
      <Problem error={lanes.error} onRetry={lanes.again} />
    )
  const open = lanes.rows.find(({ name }) => name === search.lane)
  return (
    <>
      <PageHead title="Lanes" about="How many jobs run at once. Changes take effect at once, on all workers.">
        {may('workers:manage') && <Button onClick={() => change({ do: 'create' })}>Create lane…</Button>}
      </PageHead>
      <Panel flush>
        <Table
          label="Lanes"
          columns={columnsFor(may('workers:manage'))}
          rows={lanes.rows}
          rowKey={({ name }) => name}
          onOpen={({ name }) => change({ lane: name === search.lane ? undefined : name })}
          empty={
            <Empty title="No lanes yet" command="sluice lanes create NAME --slots 4">
              Declare lanes in the config file, or create one here.
            </Empty>
          }
        />
      </Panel>
      {search.do === 'create' && may('workers:manage') && (
        <NewLane onCreated={(name) => change({ lane: name })} onClose={() => change({ do: undefined })} />
      )}
      {open !== undefined && (
        <LaneDetails
          key={open.name}
          lane={open}
          others={lanes.rows.map(({ name }) => name).filter((name) => name !== open.name)}
          moved={overrides?.moved ?? []}
        />
      )}
      {open === undefined && search.lane !== undefined && (
        <Empty title={`Lane ${search.lane} not found`}>
          It may have been deleted, or renamed in the config file.
        </Empty>
      )}
      {overrides !== undefined && <DeletedLanes deleted={overrides.deleted} />}
    </>
  )
}

/** Settings from the list, numbers from the live picture: those move four times a second. */
function useLanes(): { rows: ShownLane[] | undefined; error: unknown; again: () => void } {
  const now = useNowSnapshot()
  const { data, error, refetch } = useQuery({
    queryKey: ['lanes'],
    queryFn: () => client.listLanes(),
    refetchInterval: 10_000,
  })
  const rows = data?.map((lane: Lane): ShownLane => {
    const live = now?.lanes.find(({ name }) => name === lane.name)
    return {
      ...lane,
      depth: live?.depth ?? 0,
      waitedMs: live?.waitedMs ?? 0,
      reason: live?.reason ?? null,
      ...(live !== undefined && {
        running: live.running,
        assigned: live.assigned,
        held: live.held,
        slots: live.slots,
        enabled: live.enabled,
      }),
    }
  })
  return { rows, error, again: () => void refetch() }
}

function columnsFor(manage: boolean): readonly Column<ShownLane>[] {
  return [
    { ...LANE_COLUMNS.name, width: '16%' },
    { ...LANE_COLUMNS.use, phone: 'below' },
    { ...LANE_COLUMNS.running, width: '76px', phone: 'below' },
    {
      id: 'slots',
      phone: '84px',
      head: 'Slots',
      width: manage ? '170px' : '80px',
      cell: (lane) => (manage ? <SlotsCell lane={lane} /> : (lane.slots ?? 'no limit')),
    },
    { ...LANE_COLUMNS.queued, width: '76px', phone: 'below' },
    { ...LANE_COLUMNS.oldest, width: '100px' },
    {
      id: 'changed',
      head: 'Changed',
      width: '17%',
      phone: false,
      cell: ({ updatedBy, updatedAt }) => (
        <span title={updatedBy}>
          <Ago at={updatedAt} /> <span className="soft">by {updatedBy}</span>
        </span>
      ),
    },
    ...(manage
      ? [
          {
            id: 'switch',
            phone: '116px',
            head: <span className="hidden-visually">Actions</span>,
            width: '136px',
            align: 'right' as const,
            cell: (lane: ShownLane) => <SwitchButton lane={lane} />,
          },
        ]
      : []),
  ]
}
