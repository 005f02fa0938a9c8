import { useInfiniteQuery } from '@tanstack/react-query'
import { useMemo } from 'react'
import type { AuditFilter, AuditPage } from '../../../src/client/index.ts'
import { client } from '../connection.ts'
import { Button, Choice, Input } from '../parts/controls.tsx'
import { JsonView } from '../parts/json-view.tsx'
import { type Search, useAddress } from '../parts/link.tsx'
import { Empty, Loading } from '../parts/notes.tsx'
import { Facts, PageHead, Panel } from '../parts/panel.tsx'
import { Problem } from '../parts/problem.tsx'
import { type Column, Table } from '../parts/table.tsx'
import { Moment } from '../parts/time.tsx'
import './audit.css'

type Entry = AuditPage['entries'][number]

const PAGE = 100

/** Who changed what, when and why; and who was refused. */
export function Screen() {
  const { search, change } = useAddress()
  const filter = useMemo(() => filterOf(search), [search])
  const { data, error, isPending, refetch, hasNextPage, fetchNextPage, isFetchingNextPage } =
    useInfiniteQuery({
      queryKey: ['audit', filter],
      queryFn: ({ pageParam }) => client.access.readAudit(filter, { before: pageParam, limit: PAGE }),
      initialPageParam: undefined as string | undefined,
      getNextPageParam: (page) => page.next ?? undefined,
    })
  const rows = useMemo(() => data?.pages.flatMap(({ entries }) => entries) ?? [], [data])
  const open = rows.find(({ id }) => id === search.entry)
  return (
    <>
      <PageHead title="Audit" about="Every change and every rejected request, newest first">
        <Button onClick={() => void refetch()}>Refresh</Button>
      </PageHead>
      <div className="audit-filter">
        {(['actor', 'action', 'target'] as const).map((name) => (
          <Input
            key={name}
            aria-label={FIELDS[name]}
            placeholder={FIELDS[name]}
            value={search[name] ?? ''}
            onChange={(event) => change({ [name]: event.target.value })}
          />
        ))}
        <Choice
          label="Outcome"
          value={search.outcome === 'done' || search.outcome === 'refused' ? search.outcome : 'all'}
          options={[
            { value: 'all', label: 'All' },
            { value: 'done', label: 'Accepted' },
            { value: 'refused', label: 'Rejected' },
          ]}
          onChange={(value) => change({ outcome: value === 'all' ? undefined : value })}
        />
      </div>
      <Problem error={error} onRetry={() => void refetch()} />
      {open !== undefined && <EntryDetails entry={open} onClose={() => change({ entry: undefined })} />}
      <Panel flush>
        {isPending ? (
          <Loading lines={10} />
        ) : (
          <Table
            label="Audit"
            columns={COLUMNS}
            rows={rows}
            rowKey={({ id }) => id}
            onOpen={({ id }) => change({ entry: id }, { push: true })}
            onEnd={() => hasNextPage && !isFetchingNextPage && void fetchNextPage()}
            empty={<Empty title="No matching entries">Remove a filter, or search further back.</Empty>}
          />
        )}
        {hasNextPage && (
          <p className="audit-more">
            <Button disabled={isFetchingNextPage} onClick={() => void fetchNextPage()}>
              {isFetchingNextPage ? 'Loading…' : 'Show older entries'}
            </Button>
          </p>
        )}
      </Panel>
    </>
  )
}

const FIELDS = {
  actor: 'Actor',
  action: 'Action, such as lane.change',
  target: 'Target, such as lane default',
} as const

function filterOf(search: Search): AuditFilter {
  const texts = (['actor', 'action', 'target'] as const).flatMap((name) => {
    const text = search[name]?.trim() ?? ''
    return text === '' ? [] : [[name, text] as const]
  })
  return {
    ...(Object.fromEntries(texts) as Pick<AuditFilter, 'actor' | 'action' | 'target'>),
    ...(search.outcome === 'refused' && { refused: true }),
    ...(search.outcome === 'done' && { refused: false }),
  }
}

const COLUMNS: readonly Column<Entry>[] = [
  { id: 'at', head: 'Time', width: '136px', phone: '124px', cell: ({ at }) => <Moment at={at} /> },
  { id: 'actor', head: 'Actor', width: '14%', cell: ({ actor }) => actor },
  {
    id: 'action',
    head: 'Action',
    width: '150px',
    phone: '140px',
    cell: ({ action }) => <code>{action}</code>,
  },
  {
    id: 'target',
    head: 'Target',
    width: '22%',
    phone: 'below',
    wrap: true,
    cell: ({ target }) => target ?? '–',
  },
  {
    id: 'outcome',
    head: 'Outcome',
    width: '172px',
    phone: 'below',
    has: ({ refused }) => refused !== null,
    cell: ({ refused }) =>
      refused === null ? 'Accepted' : <code className="audit-refused">✕ {refused}</code>,
  },
  {
    id: 'reason',
    head: 'Reason',
    phone: 'below',
    has: ({ reason }) => reason !== null,
    wrap: true,
    cell: ({ reason }) => reason ?? '',
  },
]

function EntryDetails({ entry, onClose }: { entry: Entry; onClose: () => void }) {
  return (
    <Panel
      title={`${entry.action}${entry.target === null ? '' : `: ${entry.target}`}`}
      aside={
        <Button small kind="quiet" onClick={onClose}>
          Close
        </Button>
      }
    >
      <Facts
        facts={[
          ['Time', <Moment key="at" at={entry.at} />],
          ['Actor', entry.keyId === null ? entry.actor : `${entry.actor}, key ${entry.keyId}`],
          ['Outcome', entry.refused === null ? 'Accepted' : `Rejected: ${entry.refused}`],
          ['Reason', entry.reason ?? 'None given'],
          ['Request', entry.requestId ?? '–'],
        ]}
      />
      <div className="audit-sides">
        <div>
          <h3>Before</h3>
          <JsonView label="Before" value={entry.before} />
        </div>
        <div>
          <h3>After</h3>
          <JsonView label="After" value={entry.after} />
        </div>
      </div>
    </Panel>
  )
}
