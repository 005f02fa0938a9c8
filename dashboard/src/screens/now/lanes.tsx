import { useMemo } from 'react'
import type { Now, Series } from '../../../../src/client/index.ts'
import { To, useGo } from '../../parts/link.tsx'
import { Meter } from '../../parts/meter.tsx'
import { type Line, Sparkline } from '../../parts/sparkline.tsx'
import { type Column, Table } from '../../parts/table.tsx'
import { Duration } from '../../parts/time.tsx'

type Lane = Now['lanes'][number]

/** Each lane as a bar, what waits, and what stands in its way. */
export function Lanes({ lanes, series }: { lanes: readonly Lane[]; series: Series | undefined }) {
  const go = useGo()
  const lines = useMemo(() => linesByLane(series), [series])
  const times = useMemo(() => series?.points.map(({ at }) => at) ?? [], [series])
  const columns: Column<Lane>[] = [
    {
      id: 'lane',
      head: 'Lane',
      width: '18%',
      cell: ({ name, enabled }) => (
        <>
          <To path="/lanes" search={{ lane: name }}>
            {name}
          </To>
          {!enabled && <span className="mark-paused">Paused</span>}
        </>
      ),
    },
    {
      id: 'use',
      head: 'In use',
      width: '20%',
      cell: (lane) => (
        <Meter
          label={`Lane ${lane.name}`}
          limit={lane.slots}
          parts={[
            { label: 'running', value: lane.running, tone: 'running' },
            { label: 'held and idle', value: Math.max(0, lane.held - lane.running), tone: 'held' },
          ]}
        />
      ),
    },
    {
      id: 'running',
      phone: '72px',
      head: 'Running',
      width: '92px',
      align: 'right',
      cell: (lane) => (
        <To path="/jobs" search={{ tab: 'running', lane: lane.name }}>
          {lane.running}
          <span className="soft"> / {lane.slots ?? '∞'}</span>
        </To>
      ),
    },
    {
      id: 'queued',
      phone: '66px',
      head: 'Queued',
      width: '76px',
      align: 'right',
      cell: (lane) => (
        <To path="/jobs" search={{ tab: 'queued', lane: lane.name }}>
          {lane.depth.toLocaleString()}
        </To>
      ),
    },
    {
      id: 'oldest',
      head: 'Oldest wait',
      width: '100px',
      align: 'right',
      phone: false,
      cell: ({ depth, waitedMs }) =>
        depth === 0 ? <span className="soft">–</span> : <Duration ms={Math.round(waitedMs / 1000) * 1000} />,
    },
    {
      id: 'why',
      head: 'In the way',
      phone: false,
      cell: ({ reason }) => (
        <span className="soft" title={reason ?? undefined}>
          {reason ?? ''}
        </span>
      ),
    },
    {
      id: 'line',
      head: 'Last 30 minutes',
      width: '150px',
      phone: false,
      cell: ({ name }) => (
        <Sparkline label={`Lane ${name}, last 30 minutes`} times={times} lines={lines.get(name) ?? []} />
      ),
    },
  ]
  return (
    <Table
      label="Lanes"
      columns={columns}
      rows={lanes}
      rowKey={({ name }) => name}
      onOpen={({ name }) => go('/lanes', { lane: name })}
    />
  )
}

/** A lane in which nothing ran or waited is left out of a point: it had none. */
function linesByLane(series: Series | undefined): Map<string, Line[]> {
  const points = series?.points ?? []
  const names = new Set(points.flatMap(({ lanes }) => lanes.map(({ name }) => name)))
  return new Map(
    [...names].map((name) => {
      const found = points.map(({ lanes }) => lanes.find((lane) => lane.name === name))
      return [
        name,
        [
          { label: 'queued', tone: 'waiting', values: found.map((lane) => lane?.depth ?? 0) },
          { label: 'running', tone: 'running', values: found.map((lane) => lane?.running ?? 0) },
        ],
      ]
    }),
  )
}
