import { type InfiniteData, useInfiniteQuery } from '@tanstack/react-query'
import { useCallback, useMemo, useState } from 'react'
import type { JobPage } from '../../../src/client/index.ts'
import { client, queries } from '../connection.ts'
import { useLiveJobs } from '../live/now.ts'
import { Button } from '../parts/controls.tsx'
import { type Search, To, useAddress, useGo } from '../parts/link.tsx'
import { Empty, Loading } from '../parts/notes.tsx'
import { PageHead, Panel } from '../parts/panel.tsx'
import { Problem } from '../parts/problem.tsx'
import { Table } from '../parts/table.tsx'
import { BulkBar, useBulkActions } from './jobs/bulk.tsx'
import { jobColumns } from './jobs/columns.tsx'
import { countConditions, filterOf, filterWords, tabOf } from './jobs/filter.ts'
import { FilterBar, ListOptions, Tabs } from './jobs/filter-bar.tsx'
import './jobs/jobs.css'

const PAGE = 100

/** Every job there is, by state and by whatever else the address says. */
export function Screen() {
  const { search } = useAddress()
  const address = JSON.stringify(search)
  // biome-ignore lint/correctness/useExhaustiveDependencies: a span counts from when it was chosen, not from each drawing
  const filter = useMemo(() => ({ ...filterOf(search, Date.now()), limit: PAGE }), [address])
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set())
  const mayChange = useBulkActions().length > 0
  const go = useGo()
  const key = useMemo(() => ['jobs', filter] as const, [filter])
  const { data, error, isPending, hasNextPage, fetchNextPage, isFetchingNextPage, refetch } =
    useInfiniteQuery({
      queryKey: key,
      queryFn: ({ pageParam }) => client.listJobsPage(filter, pageParam),
      initialPageParam: undefined as string | undefined,
      getNextPageParam: (page) => page.next ?? undefined,
    })
  const [behind, setBehind] = useState(false)
  useLiveJobs(
    filter,
    useCallback((page: JobPage) => setBehind(!takeFirstPage(key, page)), [key]),
  )

  const rows = useMemo(() => data?.pages.flatMap(({ jobs }) => jobs) ?? [], [data])
  const tab = tabOf(search).id
  const columns = useMemo(() => jobColumns(tab, rows), [tab, rows])
  const selected = useMemo(() => rows.filter(({ id }) => chosen.has(id)), [rows, chosen])
  const showNewest = () => {
    queries.setQueryData<InfiniteData<JobPage, string | undefined>>(key, (old) =>
      old === undefined ? old : { pages: old.pages.slice(0, 1), pageParams: old.pageParams.slice(0, 1) },
    )
    setBehind(false)
    void refetch()
  }
  return (
    <>
      <PageHead title="Jobs" />
      <Tabs />
      <FilterBar />
      <Problem error={error} onRetry={() => void refetch()} />
      <Panel flush>
        <div className="jobs-head">
          {(isPending || rows.length > 0 || hasNextPage) && (
            <BulkBar
              chosen={selected}
              filter={filter}
              words={filterWords(search)}
              onDone={() => setChosen(new Set())}
            />
          )}
          {behind && (
            <Button small onClick={showNewest}>
              Show new jobs
            </Button>
          )}
          <ListOptions />
        </div>
        {isPending ? (
          <Loading lines={12} />
        ) : (
          <Table
            label="Jobs"
            columns={columns}
            rows={rows}
            rowKey={({ id }) => id}
            onOpen={({ id, kind }) => go(kind === null ? `/jobs/${id}` : `/workflows/${id}`)}
            {...(mayChange && { selection: { chosen, onChange: setChosen } })}
            onEnd={() => hasNextPage && !isFetchingNextPage && void fetchNextPage()}
            empty={<NoJobs search={search} />}
          />
        )}
        {hasNextPage && (
          <div className="jobs-more">
            <Button disabled={isFetchingNextPage} onClick={() => void fetchNextPage()}>
              {isFetchingNextPage ? 'Loading…' : rows.length === 0 ? 'Search further back' : 'Show more'}
            </Button>
          </div>
        )}
      </Panel>
    </>
  )
}

/**
 * Puts a new first page in place. If further pages are loaded, it only updates the rows that are already shown, and a
 * button leads to the newest jobs. Returns whether all new jobs are shown.
 */
function takeFirstPage(key: readonly unknown[], page: JobPage): boolean {
  const known = queries.getQueryData<InfiniteData<JobPage, string | undefined>>(key)
  // Nothing is known where the first answer is on its way, or never came because the server was away.
  if (known === undefined || known.pages.length <= 1) {
    queries.setQueryData(key, { pages: [page], pageParams: [undefined] })
    return true
  }
  const fresh = new Map(page.jobs.map((job) => [job.id, job]))
  const seen = new Set(known.pages.flatMap(({ jobs }) => jobs.map(({ id }) => id)))
  queries.setQueryData(key, {
    ...known,
    pages: known.pages.map((each) => ({ ...each, jobs: each.jobs.map((job) => fresh.get(job.id) ?? job) })),
  })
  return page.jobs.every(({ id }) => seen.has(id))
}

const EMPTY_TITLES: Readonly<Record<string, string>> = {
  active: 'No active jobs',
  approval: 'No jobs need approval',
  scheduled: 'No scheduled jobs',
  queued: 'No queued jobs',
  retrying: 'No retrying jobs',
  running: 'No running jobs',
  completed: 'No completed jobs',
  failed: 'No failed jobs',
  cancelled: 'No cancelled jobs',
}

function NoJobs({ search }: { search: Search }) {
  if (countConditions(search) > 0)
    return (
      <Empty title="No matching jobs">
        {search.with === 'steps' ? (
          'Remove a filter, or search further back.'
        ) : (
          <span className="in-text">
            Remove a filter, or{' '}
            <To path="/jobs" search={{ ...search, with: 'steps' }}>
              include the steps of workflows
            </To>
            .
          </span>
        )}
      </Empty>
    )
  return (
    <Empty title={EMPTY_TITLES[tabOf(search).id] ?? 'No jobs yet'} command="sluice submit TASK --input '{}'">
      Submit jobs from a program, a schedule or the command line.
    </Empty>
  )
}
