import { JobLink, To } from '../../parts/link.tsx'
import { StateBadge } from '../../parts/state-badge.tsx'
import { type Column, Table } from '../../parts/table.tsx'
import type { Level } from './level-name.ts'

type Step = NonNullable<Level['steps']>[number]

/** Why a level ended as it did: what became of its steps, or of its children. */
export function Verdict({ level }: { level: Level }) {
  const { steps, counts, failedAt } = level
  if (steps !== undefined)
    return (
      <div className="verdict">
        <p className="soft">{stepWords(steps)}</p>
        <Table label="Steps" columns={COLUMNS} rows={steps} rowKey={({ step }) => step} />
      </div>
    )
  if (counts === undefined) return null
  return (
    <p className="verdict in-text">
      Of {counts.total.toLocaleString()} children {counts.completed.toLocaleString()} completed,{' '}
      {counts.failed.toLocaleString()} failed and {counts.cancelled.toLocaleString()} were cancelled.
      {failedAt !== undefined && failedAt.length > 0 && (
        <>
          {' '}
          {counts.failed > failedAt.length ? 'First failures' : 'Failed'}:{' '}
          {failedAt.map((place) => `[${place}]`).join(', ')}.
        </>
      )}{' '}
      <To path={`/workflows/${level.id}`}>Show all</To>
    </p>
  )
}

function stepWords(steps: readonly Step[]): string {
  const failed = steps.filter(({ status, handled }) => status === 'failed' && !handled)
  const names = failed.map(({ step }) => step).join(', ')
  if (failed.length === 0) return 'Other steps handled every failure.'
  return `Failed because of ${names}. No step handles that failure.`
}

const COLUMNS: readonly Column<Step>[] = [
  {
    id: 'step',
    head: 'Step',
    width: '30%',
    cell: ({ step, id }) => (id === null ? step : <JobLink id={id}>{step}</JobLink>),
  },
  { id: 'state', head: 'State', width: '130px', cell: ({ status }) => <StateBadge state={status} /> },
  {
    id: 'why',
    head: 'Error',
    wrap: true,
    cell: ({ why, handled }) => `${why ?? ''}${handled ? ' (handled by another step)' : ''}`,
  },
]
