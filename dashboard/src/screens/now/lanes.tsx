import { useMemo } from 'react'
import type { Now, Series } from '../../../../src/client/index.ts'
import { LANE_COLUMNS, LaneJobs } from '../../parts/lane-columns.tsx'
import { useGo } from '../../parts/link.tsx'
import { type Line, Sparkline } from '../../parts/sparkline.tsx'
import { type Column, Table } from '../../parts/table.tsx'

type Lane = Now['lanes'][number]

/** Each lane as a bar, what waits, and what stands in its way. */
export function Lanes({ lanes, series }: { lanes: readonly Lane[]; series: Series | undefined }) {
  const go = useGo()
  const lines = useMemo(() => linesByLane(series), [series])
  const times = useMemo(() => series?.points.map(({ at }) => at) ?? [], [series])
  const columns: Column<Lane>[] = [
    { ...LANE_COLUMNS.name, width: '17%' },
    { ...LANE_COLUMNS.use, width: '16%' },
    {
      ...LANE_COLUMNS.running,
      width: '92px',
      phone: '72px',
      cell: (lane) => (
        <LaneJobs tab="running" lane={lane.name}>
          {lane.running.toLocaleString()}
          <span className="soft"> / {lane.slots ?? '∞'}</span>
        </LaneJobs>
      ),
    },
    { ...LANE_COLUMNS.queued, width: '76px', phone: '66px' },
    { ...LANE_COLUMNS.oldest, width: '104px' },
    {
      id: 'why',
      head: 'In the way',
      phone: false,
      cell: ({ name, enabled, reason }) => (
        <span className="soft" title={reason ?? undefined}>
          {/* The row says which lane. */}
          {enabled ? reason?.replace(`lane ${name} is `, '') : 'paused by an operator'}
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
