import { useInfiniteQuery } from '@tanstack/react-query'
import { useMemo } from 'react'
import type { Recovery } from '../../../src/client/index.ts'
import { client } from '../connection.ts'
import { Button, Choice } from '../parts/controls.tsx'
import { JobLink, useAddress } from '../parts/link.tsx'
import { Empty, Loading, Note } from '../parts/notes.tsx'
import { PageHead, Panel } from '../parts/panel.tsx'
import { Problem } from '../parts/problem.tsx'
import { type Column, Table } from '../parts/table.tsx'
import { Ago } from '../parts/time.tsx'
import './recovery.css'

type Event = Recovery['events'][number]
type Kind = Event['kind']

const EVERY_MS = 5000
const PAGE = 100

/** What each kind is called, and what an operator should think of it. */
const KINDS: Readonly<Record<Kind, { word: string; about: string; fault: boolean }>> = {
  taken_over: {
    word: 'Taken over',
    about: 'A worker went silent, and its jobs were requeued.',
    fault: false,
  },
  late_write: {
    word: 'Late write rejected',
    about: 'A worker kept running a job after losing its lease. Its writes were rejected.',
    fault: false,
  },
  orphan: { word: 'Orphan', about: 'A running job had no worker and was requeued.', fault: true },
  drift: { word: 'Drift', about: 'A counter was wrong and was corrected.', fault: true },
  healed: { word: 'Healed', about: 'A workflow had stalled and was resumed.', fault: true },
}
const NAMES = Object.keys(KINDS) as Kind[]

/** What went wrong and was put right without anybody: silent workers, late writes, the reconciler. */
export function Screen() {
  const { search, change } = useAddress()
  const kind = NAMES.find((each) => each === search.kind)
  const { data, error, isPending, refetch, hasNextPage, fetchNextPage, isFetchingNextPage } =
    useInfiniteQuery({
      queryKey: ['recovery', kind],
      queryFn: ({ pageParam }) =>
        client.recovery({
          limit: PAGE,
          ...(kind !== undefined && { kind }),
          ...(pageParam !== undefined && { before: pageParam }),
        }),
      initialPageParam: undefined as string | undefined,
      getNextPageParam: (page) => page.next ?? undefined,
      refetchInterval: EVERY_MS,
    })
  const rows = useMemo(() => data?.pages.flatMap(({ events }) => events) ?? [], [data])
  const first = data?.pages[0]
  const faults =
    first === undefined
      ? 0
      : NAMES.filter((each) => KINDS[each].fault).reduce((sum, each) => sum + first.lastDay[each], 0)
  return (
    <>
      <PageHead title="Recovery" about="Problems that Sluice repaired on its own" />
      <Problem error={error} onRetry={() => void refetch()} />
      {faults > 0 && (
        <Note kind="warn">
          Orphans, drift and healed workflows point to a bug in Sluice. No job was lost. Please report the
          events below.
        </Note>
      )}
      <Panel title="Totals" flush>
        {first === undefined ? <Loading lines={5} /> : <Totals recovery={first} />}
      </Panel>
      <Panel
        title="Events"
        aside={
          <Choice
            label="Kind"
            value={kind ?? 'all'}
            options={[
              { value: 'all', label: 'All' },
              ...NAMES.map((each) => ({ value: each, label: KINDS[each].word })),
            ]}
            onChange={(value) => change({ kind: value === 'all' ? undefined : value })}
          />
        }
        flush
      >
        {isPending ? (
          <Loading lines={8} />
        ) : (
          <Table
            label="Recoveries"
            columns={COLUMNS}
            rows={rows}
            rowKey={({ id }) => id}
            onEnd={() => hasNextPage && !isFetchingNextPage && void fetchNextPage()}
            empty={
              <Empty title="No recoveries">
                When a worker dies, other workers take over its jobs. Such events appear here.
              </Empty>
            }
          />
        )}
        {hasNextPage && (
          <p className="recovery-more">
            <Button disabled={isFetchingNextPage} onClick={() => void fetchNextPage()}>
              Show more
            </Button>
          </p>
        )}
      </Panel>
    </>
  )
}

function Totals({ recovery }: { recovery: Recovery }) {
  const columns: readonly Column<Kind>[] = [
    { id: 'kind', head: 'Kind', width: '170px', wrap: true, cell: (kind) => KINDS[kind].word },
    {
      id: 'hour',
      head: 'Last hour',
      width: '100px',
      phone: '84px',
      align: 'right',
      cell: (kind) => recovery.lastHour[kind].toLocaleString(),
    },
    {
      id: 'day',
      head: 'Last 24 h',
      width: '100px',
      phone: '88px',
      align: 'right',
      cell: (kind) => recovery.lastDay[kind].toLocaleString(),
    },
    {
      id: 'about',
      head: 'Meaning',
      phone: 'below',
      wrap: true,
      cell: (kind) => <span className="soft">{KINDS[kind].about}</span>,
    },
  ]
  return <Table label="Totals" columns={columns} rows={NAMES} rowKey={(kind) => kind} />
}

const COLUMNS: readonly Column<Event>[] = [
  { id: 'at', head: 'Time', width: '120px', phone: '86px', cell: ({ at }) => <Ago at={at} /> },
  { id: 'kind', head: 'Kind', width: '160px', wrap: true, cell: ({ kind }) => KINDS[kind].word },
  {
    id: 'worker',
    head: 'Worker or lane',
    width: '20%',
    phone: 'below',
    cell: ({ worker, lane }) => worker ?? (lane === null ? '–' : `lane ${lane}`),
  },
  {
    id: 'jobs',
    head: 'Jobs',
    width: '24%',
    phone: '150px',
    wrap: true,
    cell: (event) => <Touched event={event} />,
  },
  {
    id: 'became',
    head: 'Outcome',
    phone: 'below',
    wrap: true,
    cell: ({ requeued, failed, cancelled, detail }) =>
      [
        ...(requeued > 0 ? [`${requeued.toLocaleString()} requeued`] : []),
        ...(failed > 0 ? [`${failed.toLocaleString()} failed`] : []),
        ...(cancelled > 0 ? [`${cancelled.toLocaleString()} cancelled`] : []),
        ...(detail === null ? [] : [detail]),
      ].join(', ') || '–',
  },
]

function Touched({ event: { jobs, jobIds } }: { event: Event }) {
  const shown = jobIds.slice(0, 3)
  if (shown.length === 0) return jobs === 0 ? '–' : jobs.toLocaleString()
  return (
    <span className="in-text">
      {shown.map((id, at) => (
        <span key={id}>
          {at > 0 && ', '}
          <JobLink id={id} />
        </span>
      ))}
      {jobs > shown.length && (
        <span className="soft"> and {(jobs - shown.length).toLocaleString()} more</span>
      )}
    </span>
  )
}
