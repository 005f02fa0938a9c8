import { useQuery } from '@tanstack/react-query'
import { useMemo } from 'react'
import { type ErrorGroups, NO_RERUNS } from '../../../src/client/index.ts'
import { because, client, queries } from '../connection.ts'
import { useAsk } from '../parts/ask.tsx'
import { Button, Choice, Input } from '../parts/controls.tsx'
import { count } from '../parts/count.ts'
import { LongText } from '../parts/json-view.tsx'
import { JobLink, To, useAddress } from '../parts/link.tsx'
import { Empty, Loading, Note } from '../parts/notes.tsx'
import { Facts, PageHead, Panel } from '../parts/panel.tsx'
import { describeError, Problem } from '../parts/problem.tsx'
import { RerunSummary } from '../parts/reruns.tsx'
import { type Column, Table } from '../parts/table.tsx'
import { Ago, Moment } from '../parts/time.tsx'
import { useTell } from '../parts/toast.tsx'
import { useSession } from '../session.tsx'
import './errors.css'

type Group = ErrorGroups['groups'][number]

const EVERY_MS = 10_000
const SPANS = [
  { value: '1h', label: 'Last hour', ms: 3_600_000 },
  { value: '24h', label: '24 h', ms: 86_400_000 },
  { value: '7d', label: '7 days', ms: 604_800_000 },
  { value: 'all', label: 'All', ms: undefined },
] as const

/** Failures by what their errors have in common: one cause, one line. */
export function Screen() {
  const { search, change } = useAddress()
  const { may } = useSession()
  const span = SPANS.find(({ value }) => value === search.span) ?? SPANS[1]
  const task = search.task?.trim() ?? ''
  const { data, error, isPending, refetch } = useQuery({
    queryKey: ['errors', span.value, task],
    queryFn: () => client.errorGroups(asked(span.ms, task)),
    refetchInterval: EVERY_MS,
  })
  const retry = useRetryGroup(span.ms, task)
  const columns = useMemo(
    () => columnsWith(may('workers:manage') ? retry : undefined, data?.groups[0]?.count ?? 1),
    [may, retry, data],
  )
  const open = data?.groups.find(({ fingerprint }) => fingerprint === search.group)
  return (
    <>
      <PageHead title="Errors" about={data === undefined ? ' ' : summaryOf(data)}>
        <Input
          aria-label="Task"
          placeholder="Task"
          value={search.task ?? ''}
          onChange={(event) => change({ task: event.target.value })}
        />
        <Choice
          label="Period"
          value={span.value}
          options={SPANS}
          onChange={(value) => change({ span: value })}
        />
      </PageHead>
      <Problem error={error} onRetry={() => void refetch()} />
      {data?.complete === false && (
        <Note kind="warn">
          Counts cover the newest {data.looked.toLocaleString()} failures. There are older ones in this
          period.
        </Note>
      )}
      {open !== undefined && <GroupDetails group={open} onClose={() => change({ group: undefined })} />}
      {/* Another one while it loads: what is open comes above it, and nothing that is read moves. */}
      <Panel key={isPending ? 'loading' : 'list'} flush>
        {isPending ? (
          <Loading lines={8} />
        ) : (
          <Table
            label="Groups of errors"
            columns={columns}
            rows={data?.groups ?? []}
            rowKey={({ fingerprint }) => fingerprint}
            onOpen={({ fingerprint }) => change({ group: fingerprint }, { push: true })}
            empty={
              <Empty title="No failures">
                No job{task === '' ? '' : ' of this task'} has failed in this period. Failed attempts that are
                retried do not count.
              </Empty>
            }
          />
        )}
      </Panel>
    </>
  )
}

function asked(ms: number | undefined, task: string): { since?: Date; task?: string } {
  return {
    // To the minute: a moment of its own for each look would never be answered from what is known.
    ...(ms !== undefined && { since: new Date(Math.floor((Date.now() - ms) / 60_000) * 60_000) }),
    ...(task !== '' && { task }),
  }
}

/** What failed only because something below it did is in no group, and not counted. */
function summaryOf({ groups }: ErrorGroups): string {
  if (groups.length === 0) return 'No failures'
  const failures = groups.reduce((sum, { count }) => sum + count, 0)
  return `${count(failures, 'failure')} in ${count(groups.length, 'group')}`
}

/** Counts what a retry would touch, asks, and goes through all of the group on the server. */
function useRetryGroup(ms: number | undefined, task: string): (group: Group) => void {
  const ask = useAsk()
  const tell = useTell()
  return useMemo(
    () => (group) => {
      const { since } = asked(ms, task)
      const filter = {
        fingerprint: group.fingerprint,
        ...(task !== '' && { task }),
        ...(since !== undefined && { finishedFrom: since }),
      }
      const go = async () => {
        const { matched, reruns = NO_RERUNS } = await client.retryMany(filter, { dryRun: true })
        ask({
          title: 'Retry this group of failures',
          effect: (
            <>
              <p>
                <code>{group.pattern}</code>
              </p>
              <RerunSummary matched={matched} reruns={reruns} />
              <p>Jobs fail again if the cause persists.</p>
            </>
          ),
          count: reruns.jobs,
          action: 'Retry',
          run: async (reason, progress) => {
            const done = await because(reason).retryMany(filter, {
              onProgress: ({ changed }) =>
                progress(`${changed.toLocaleString()} of ${matched.toLocaleString()}`),
            })
            await queries.invalidateQueries({ queryKey: ['errors'] })
            const refused =
              done.refused.length === 0 ? '' : `; ${done.refused.length} rejected: ${done.refused[0]?.detail}`
            return `${count(done.reruns?.jobs ?? 0, 'job runs', 'jobs run')} again${refused}`
          },
        })
      }
      go().catch((failure) => tell(describeError(failure).words))
    },
    [ask, tell, ms, task],
  )
}

function columnsWith(retry: ((group: Group) => void) | undefined, most: number): readonly Column<Group>[] {
  return [
    {
      id: 'count',
      head: 'Failures',
      width: '100px',
      phone: '84px',
      align: 'right',
      cell: ({ count }) => (
        <span className="error-count">
          <span className="error-bar" style={{ width: `${(count / most) * 100}%` }} />
          <strong>{count.toLocaleString()}</strong>
        </span>
      ),
    },
    {
      id: 'pattern',
      head: 'Error',
      cell: ({ pattern }) => (
        <code className="error-pattern clamp" title={pattern}>
          {pattern.split('\n', 1)[0]}
        </code>
      ),
    },
    {
      id: 'tasks',
      head: 'Tasks',
      width: '16%',
      phone: 'below',
      wrap: true,
      cell: ({ tasks }) => tasks.join(', '),
    },
    {
      id: 'last',
      head: 'Last seen',
      width: '94px',
      phone: '86px',
      cell: ({ lastAt }) => <Ago at={lastAt} />,
    },
    {
      id: 'first',
      head: 'First seen',
      width: '94px',
      phone: 'below',
      cell: ({ firstAt }) => <Ago at={firstAt} />,
    },
    {
      id: 'example',
      head: 'Latest job',
      width: '88px',
      phone: 'below',
      cell: ({ exampleId }) => <JobLink id={exampleId} />,
    },
    ...(retry === undefined
      ? []
      : [
          {
            id: 'actions',
            head: <span className="hidden-visually">Actions</span>,
            width: '124px',
            align: 'right' as const,
            phone: 'below',
            cell: (group: Group) => (
              <Button
                small
                aria-label={`Retry all ${group.count} failures of this group`}
                onClick={() => retry(group)}
              >
                Retry all…
              </Button>
            ),
          },
        ]),
  ]
}

/** The list of jobs whose error has the longest piece that is the same in all of the group. */
function searchOf({ pattern, tasks }: Group): Record<string, string> {
  const pieces = pattern.split(/\.\.\.|N|\n/).map((piece) => piece.trim())
  const longest = pieces.toSorted((one, other) => other.length - one.length)[0] ?? ''
  return {
    tab: 'failed',
    with: 'steps',
    ...(longest !== '' && { error: longest }),
    ...(tasks.length === 1 && { task: tasks[0]! }),
  }
}

function GroupDetails({ group, onClose }: { group: Group; onClose: () => void }) {
  return (
    <Panel
      title="Group details"
      aside={
        <Button small kind="quiet" onClick={onClose}>
          Close
        </Button>
      }
    >
      <Facts
        facts={[
          [
            'Failures',
            <To key="list" path="/jobs" search={searchOf(group)}>
              Show {count(group.count, 'job')}
            </To>,
          ],
          ['Tasks', group.tasks.join(', ')],
          ['First seen', <Moment key="first" at={group.firstAt} />],
          ['Last seen', <Moment key="last" at={group.lastAt} />],
          ['Latest job', <JobLink key="job" id={group.exampleId} />],
        ]}
      />
      <div className="error-example">
        <LongText label="Error of the latest job" text={group.exampleError} />
      </div>
    </Panel>
  )
}
