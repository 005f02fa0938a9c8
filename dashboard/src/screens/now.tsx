import { useNowPicture } from '../live/now.ts'
import { To } from '../parts/link.tsx'
import { Meter } from '../parts/meter.tsx'
import { Empty, Loading } from '../parts/notes.tsx'
import { Facts, PageHead, Panel } from '../parts/panel.tsx'
import { Table } from '../parts/table.tsx'
import { Duration } from '../parts/time.tsx'

/** The whole system at a glance. */
export function Screen() {
  const now = useNowPicture()
  if (now === undefined) return <Loading lines={10} />
  const { admission, lanes, workers } = now
  return (
    <>
      <PageHead title="Now" />
      <Panel title="Admission">
        <Facts
          facts={[
            ['Active', admission.active?.toLocaleString() ?? 'not counted'],
            ['Ceiling', admission.maxActive?.toLocaleString() ?? 'none'],
            ['Workers', workers.live],
          ]}
        />
      </Panel>
      <Panel title="Lanes" flush>
        <Table
          label="Lanes"
          rows={lanes}
          rowKey={({ name }) => name}
          empty={<Empty title="There are no lanes" />}
          columns={[
            { id: 'name', head: 'Lane', cell: ({ name }) => <To path="/lanes">{name}</To> },
            {
              id: 'use',
              head: 'In use',
              cell: (lane) => (
                <Meter
                  label={lane.name}
                  limit={lane.slots}
                  parts={[
                    { label: 'running', value: lane.running, tone: 'running' },
                    { label: 'held', value: Math.max(0, lane.held - lane.running), tone: 'held' },
                  ]}
                />
              ),
            },
            { id: 'depth', head: 'Queued', align: 'right', cell: ({ depth }) => depth },
            {
              id: 'wait',
              head: 'Oldest',
              align: 'right',
              cell: ({ waitedMs }) => <Duration ms={waitedMs} />,
            },
          ]}
        />
      </Panel>
    </>
  )
}
