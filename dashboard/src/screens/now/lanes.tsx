import { useMemo } from 'react'
import type { Now, Series } from '../../../../src/client/index.ts'
import { LANE_COLUMNS, LaneJobs } from '../../parts/lane-columns.tsx'
import { useGo } from '../../parts/link.tsx'
import { type Line, Sparkline } from '../../parts/sparkline.tsx'
import { type Column, Table } from '../../parts/table.tsx'

type Lane = Now['lanes'][number]

const HALF_HOUR_MS = 1_800_000

/** Each lane as a bar, what waits, and what blocks them. */
export function Lanes({ lanes, series }: { lanes: readonly Lane[]; series: Series | undefined }) {
  const go = useGo()
  const lines = useMemo(() => linesByLane(series), [series])
  const times = useMemo(() => series?.points.map(({ at }) => at) ?? [], [series])
  const columns: Column<Lane>[] = [
    { ...LANE_COLUMNS.name, width: '16%' },
    { ...LANE_COLUMNS.use, width: '9%', phone: '64px' },
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
      head: 'Blocked by',
      phone: 'below',
      cell: ({ enabled, depth, blockedBy, reason }) =>
        // A lane that is paused blocks what comes, too: it says so beside its name already.
        enabled && depth > 0 ? (
          <span className="soft clamp" title={reason ?? undefined}>
            {blockedBy}
          </span>
        ) : null,
    },
    {
      id: 'line',
      head: (
        <span className="line-legend">
          30 min: <i data-tone="running">running</i> <i data-tone="waiting">queued</i>
        </span>
      ),
      width: '196px',
      phone: false,
      cell: ({ name }) => (
        <Sparkline
          label={`Lane ${name}, last 30 minutes`}
          times={times}
          lines={lines.get(name) ?? []}
          spanMs={HALF_HOUR_MS}
        />
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
