import type { ReactNode } from 'react'
import { To } from './link.tsx'
import { Meter } from './meter.tsx'
import { PausedMark } from './paused-mark.tsx'
import type { Column } from './table.tsx'
import { Duration } from './time.tsx'

/** What a table of lanes shows wherever it stands. */
export interface LaneRow {
  readonly name: string
  readonly enabled: boolean
  readonly slots: number | null
  readonly running: number
  readonly held: number
  /** Jobs that could start and wait for a worker. */
  readonly depth: number
  /** Jobs that a worker has and has not started. The list of queued jobs has both. */
  readonly assigned: number
  readonly waitedMs: number
}

/** The columns that tables of lanes have in common; each table gives them the room it has. */
export const LANE_COLUMNS = {
  name: {
    id: 'lane',
    head: 'Lane',
    wrap: true,
    cell: ({ name, enabled }) => (
      <>
        <To path="/lanes" search={{ lane: name }}>
          {name}
        </To>{' '}
        {!enabled && <PausedMark />}
      </>
    ),
  },
  use: {
    id: 'use',
    head: 'In use',
    cell: ({ name, slots, running, held }) => (
      <Meter
        label={`Lane ${name}`}
        limit={slots}
        parts={[
          { label: 'running', value: running, tone: 'running' },
          { label: 'held and idle', value: Math.max(0, held - running), tone: 'held' },
        ]}
      />
    ),
  },
  running: {
    id: 'running',
    head: 'Running',
    align: 'right',
    cell: ({ name, running }) => (
      <LaneJobs tab="running" lane={name}>
        {running.toLocaleString()}
      </LaneJobs>
    ),
  },
  queued: {
    id: 'queued',
    head: 'Queued',
    align: 'right',
    cell: ({ name, depth, assigned }) => (
      <LaneJobs tab="queued" lane={name}>
        {(depth + assigned).toLocaleString()}
      </LaneJobs>
    ),
  },
  oldest: {
    id: 'oldest',
    head: 'Oldest wait',
    align: 'right',
    phone: 'below',
    cell: ({ depth, waitedMs }) =>
      depth === 0 ? <span className="soft">–</span> : <Duration ms={Math.round(waitedMs / 1000) * 1000} />,
  },
} as const satisfies Record<string, Column<LaneRow>>

/** A lane's slots are taken by steps of workflows too: the list behind a number of it has them. */
export function LaneJobs({
  tab,
  lane,
  children,
}: {
  tab: 'running' | 'queued'
  lane: string
  children: ReactNode
}) {
  return (
    <To path="/jobs" search={{ tab, lane, with: 'steps', ...(tab === 'queued' && { order: 'line' }) }}>
      {children}
    </To>
  )
}
