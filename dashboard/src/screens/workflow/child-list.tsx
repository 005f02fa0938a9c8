import { keepPreviousData, useInfiniteQuery } from '@tanstack/react-query'
import { JOB_STATUSES, type Strip } from '../../../../src/client/index.ts'
import { client } from '../../connection.ts'
import { Button, Field, Select } from '../../parts/controls.tsx'
import { To, useGo } from '../../parts/link.tsx'
import { Problem } from '../../parts/problem.tsx'
import { hasEnded, StateBadge, stateWord } from '../../parts/state-badge.tsx'
import { type Column, Table } from '../../parts/table.tsx'
import { Took } from '../../parts/time.tsx'
import { paceOf } from './pace.ts'
import { type GraphNode, stateOf } from './use-workflow.ts'

const CHILD_STATUSES = ['all', ...JOB_STATUSES] as const
export type ChildStatus = (typeof CHILD_STATUSES)[number]

/** Children of a fan-out in their order: all, or those of a status, from the chosen stretch on. */
export function ChildList({
  job,
  status,
  onStatus,
  stretch,
  onWhole,
  rows,
}: {
  job: GraphNode
  status: ChildStatus
  onStatus: (status: ChildStatus) => void
  stretch: Strip['buckets'][number] | undefined
  onWhole: () => void
  /** Of a page. */
  rows: number
}) {
  const go = useGo()
  const from = stretch?.from ?? 0
  const { stamp, ...pace } = paceOf(job, hasEnded(job))
  const { data, error, fetchNextPage, hasNextPage, isFetchingNextPage } = useInfiniteQuery({
    queryKey: ['children', job.id, status, from, rows, ...stamp],
    queryFn: ({ pageParam }) =>
      client.children(job.id, {
        from: pageParam,
        limit: rows,
        ...(status !== 'all' && { status: [status] }),
      }),
    initialPageParam: from,
    getNextPageParam: (page) => page.next ?? undefined,
    placeholderData: keepPreviousData,
    ...pace,
  })
  const children = data?.pages.flatMap((page) => page.children) ?? []
  const shown = stretch === undefined ? children : children.filter(({ index }) => (index ?? 0) <= stretch.to)
  const more = hasNextPage && shown.length === children.length
  return (
    <div className="children">
      <div className="children-bar">
        <Field label="State">
          <Select value={status} onChange={(event) => onStatus(event.target.value as ChildStatus)}>
            {CHILD_STATUSES.map((each) => (
              <option key={each} value={each}>
                {each === 'all' ? 'All' : stateWord(each)}
              </option>
            ))}
          </Select>
        </Field>
        {stretch !== undefined && (
          <p>
            of {stretch.from.toLocaleString()} to {stretch.to.toLocaleString()}{' '}
            <Button small onClick={onWhole}>
              Show all children
            </Button>
          </p>
        )}
      </div>
      <Problem error={error} />
      <Table
        label="Children of the fan-out"
        columns={COLUMNS}
        rows={shown}
        rowKey={({ id }) => id}
        onOpen={(child) => go(pathOf(child))}
        empty={
          <p className="children-none soft" data-loading={data === undefined ? '' : undefined}>
            {data === undefined ? 'Loading…' : 'No matching children.'}
          </p>
        }
      />
      {more && (
        <Button disabled={isFetchingNextPage} onClick={() => void fetchNextPage()}>
          Show {rows} more
        </Button>
      )}
    </div>
  )
}

function pathOf({ id, kind }: GraphNode): string {
  return kind === null ? `/jobs/${id}` : `/workflows/${id}`
}

const COLUMNS: readonly Column<GraphNode>[] = [
  {
    id: 'index',
    head: 'Index',
    width: '90px',
    phone: '72px',
    cell: (child) => <To path={pathOf(child)}>[{child.index}]</To>,
  },
  { id: 'state', head: 'State', width: '144px', cell: (child) => <StateBadge state={stateOf(child)} /> },
  {
    id: 'took',
    head: 'Took',
    width: '90px',
    align: 'right',
    cell: ({ startedAt, finishedAt }) => <Took startedAt={startedAt} finishedAt={finishedAt} />,
  },
  {
    id: 'attempt',
    head: 'Attempts',
    width: '90px',
    align: 'right',
    phone: 'below',
    cell: ({ attempt }) => attempt,
  },
  {
    id: 'error',
    head: 'Error or message',
    phone: 'below',
    cell: ({ id, error, message }) =>
      error === null ? (
        (message ?? '')
      ) : (
        <To path={`/trace/${id}`} title="Trace the failure">
          {error}
        </To>
      ),
  },
]
