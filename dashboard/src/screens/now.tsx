import { useQuery } from '@tanstack/react-query'
import { client } from '../connection.ts'
import { useNowSnapshot } from '../live/now.ts'
import { Empty, Loading } from '../parts/notes.tsx'
import { PageHead, Panel } from '../parts/panel.tsx'
import { Devices } from './now/devices.tsx'
import { Lanes } from './now/lanes.tsx'
import { Tiles } from './now/tiles.tsx'
import { Verdict } from './now/verdict.tsx'
import './now/now.css'

/** A point is stored every 10 s. */
const SERIES_MS = 10_000

/** The whole system at a glance: what runs, what waits and for what, and whether something is wrong. */
export function Screen() {
  const now = useNowSnapshot()
  const { data: series } = useQuery({
    queryKey: ['series', 30],
    queryFn: () => client.series({ minutes: 30 }),
    refetchInterval: SERIES_MS,
  })
  if (now === undefined) return <Loading lines={12} />
  return (
    <>
      <PageHead title="Now" about={<Verdict now={now} />} />
      <Tiles now={now} series={series} />
      <Panel title="Lanes" flush>
        {now.lanes.length === 0 ? (
          <Empty title="No lanes yet" command="sluice lanes create NAME --slots 4">
            Declare lanes and tasks in the config file, or create a lane.
          </Empty>
        ) : (
          <Lanes lanes={now.lanes} series={series} />
        )}
      </Panel>
      {/* Of many only those in sight are drawn, and nothing else tells how many there are. */}
      {now.devices.length > 0 && (
        <Panel title="Devices and budgets" flush aside={`${now.devices.length.toLocaleString()} in total`}>
          <Devices devices={now.devices} />
        </Panel>
      )}
    </>
  )
}
