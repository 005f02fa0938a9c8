import { useQuery } from '@tanstack/react-query'
import { useCallback, useMemo } from 'react'
import type { JobFilter, JobPage, JobSummary } from '../../../src/client/index.ts'
import { because, client, queries } from '../connection.ts'
import { useLiveJobs } from '../live/now.ts'
import { type Question, useAsk } from '../parts/ask.tsx'
import { Button } from '../parts/controls.tsx'
import { count } from '../parts/count.ts'
import { JsonView } from '../parts/json-view.tsx'
import { JobLink, To, useAddress } from '../parts/link.tsx'
import { Empty, Loading, Note } from '../parts/notes.tsx'
import { Facts, PageHead, Panel } from '../parts/panel.tsx'
import { Problem } from '../parts/problem.tsx'
import { StepOf } from '../parts/step-of.tsx'
import { type Column, Table } from '../parts/table.tsx'
import { Ago, Moment } from '../parts/time.tsx'
import { useSession } from '../session.tsx'
import './approvals.css'

const WAITING: JobFilter = { status: ['awaiting_approval'], children: true, limit: 200 }
const KEY = ['approvals']

/** Jobs that wait for somebody to look at them, and what they would do. */
export function Screen() {
  const { search, change } = useAddress()
  const { data, error, isPending, refetch } = useQuery({
    queryKey: KEY,
    queryFn: () => client.listJobsPage(WAITING),
  })
  useLiveJobs(
    WAITING,
    useCallback((page: JobPage) => queries.setQueryData(KEY, page), []),
  )
  const rows = data?.jobs ?? []
  const open = rows.find(({ id }) => id === search.job)
  const act = useJudgement()
  const columns = useMemo(() => columnsWith(act), [act])
  return (
    <>
      <PageHead
        title="Approvals"
        about={data === undefined ? ' ' : waitingWords(rows.length, data.next !== null)}
      />
      <Problem error={error} onRetry={() => void refetch()} />
      {open !== undefined && (
        <Proposal key={open.id} job={open} onClose={() => change({ job: undefined })} act={act} />
      )}
      {/* Another one while it loads: what is open comes above it, and nothing that is read moves. */}
      <Panel key={isPending ? 'loading' : 'list'} flush>
        {isPending ? (
          <Loading lines={6} />
        ) : (
          <Table
            label="Jobs that wait for approval"
            columns={columns}
            rows={rows}
            rowKey={({ id }) => id}
            onOpen={({ id }) => change({ job: id }, { push: true })}
            empty={
              <Empty title="Nothing waits for approval">
                Jobs of tasks with <code>approval: true</code> come here, and run once somebody else says so.
              </Empty>
            }
          />
        )}
        {data !== undefined && data.next !== null && (
          <p className="approvals-more">
            <To path="/jobs" search={{ tab: 'approval' }}>
              All of them
            </To>
          </p>
        )}
      </Panel>
    </>
  )
}

function waitingWords(number: number, more: boolean): string {
  if (number === 0) return 'Nothing waits for you'
  return `${more ? 'More than ' : ''}${count(number, 'job waits', 'jobs wait')} for somebody to look`
}

type Judgement = (what: 'approve' | 'reject', job: JobSummary) => void

function useJudgement(): Judgement {
  const ask = useAsk()
  return useCallback(
    (what, job) => {
      const refresh = () => queries.invalidateQueries({ queryKey: KEY })
      const name = `job #${job.id} (${job.task})`
      const question: Question =
        what === 'approve'
          ? {
              title: `Approve ${name}?`,
              effect: <p>It may run from now on, as soon as there is room for it.</p>,
              action: 'Approve',
              run: async (reason) => {
                await because(reason).approve(job.id)
                await refresh()
                return `Job #${job.id} is approved`
              },
            }
          : {
              title: `Reject ${name}?`,
              effect: <p>It is cancelled and never runs. Whoever submitted it reads the reason.</p>,
              action: 'Reject',
              danger: true,
              reason: 'required',
              run: async (reason) => {
                await because(reason).reject(job.id, reason)
                await refresh()
                return `Job #${job.id} is rejected`
              },
            }
      ask(question)
    },
    [ask],
  )
}

function columnsWith(act: Judgement): readonly Column<JobSummary>[] {
  return [
    { id: 'id', head: 'Job', width: '90px', phone: '90px', cell: ({ id }) => <JobLink id={id} /> },
    { id: 'task', head: 'Task', cell: ({ task }) => task },
    { id: 'of', head: 'Step of', width: '20%', phone: 'below', cell: (job) => <StepOf job={job} /> },
    {
      id: 'by',
      head: 'Submitted by',
      width: '16%',
      phone: 'below',
      cell: ({ submittedBy }) => submittedBy ?? '–',
    },
    { id: 'tags', head: 'Tags', width: '14%', phone: 'below', cell: ({ tags }) => tags.join(', ') },
    {
      id: 'since',
      head: 'Waits since',
      width: '120px',
      phone: 'below',
      cell: ({ submittedAt }) => <Ago at={submittedAt} />,
    },
    {
      id: 'actions',
      head: <span className="hidden-visually">Actions</span>,
      width: '180px',
      align: 'right',
      phone: 'below',
      cell: (job) => <Buttons job={job} act={act} />,
    },
  ]
}

/** Nobody judges their own: the server refuses it, so it is not offered. */
function Buttons({ job, act }: { job: JobSummary; act: Judgement }) {
  const { session } = useSession()
  if (job.submittedBy === session.name) return <span className="soft">your own</span>
  return (
    <span className="approval-buttons">
      <Button small kind="primary" aria-label={`Approve job ${job.id}`} onClick={() => act('approve', job)}>
        Approve
      </Button>
      <Button small kind="danger" aria-label={`Reject job ${job.id}`} onClick={() => act('reject', job)}>
        Reject
      </Button>
    </span>
  )
}

/** What the job would do: its input, and who wants it. */
function Proposal({ job, act, onClose }: { job: JobSummary; act: Judgement; onClose: () => void }) {
  const { data, error } = useQuery({ queryKey: ['job', job.id], queryFn: () => client.getJob(job.id) })
  return (
    <Panel
      title={`Job #${job.id}: ${job.task}`}
      aside={
        <span className="approval-buttons">
          <Buttons job={job} act={act} />
          <Button small kind="quiet" onClick={onClose}>
            Close
          </Button>
        </span>
      }
    >
      <Facts
        facts={[
          ...(job.rootId === null ? [] : ([['Step of', <StepOf key="of" job={job} />]] as const)),
          ['Submitted by', job.submittedBy ?? 'nobody named'],
          ['Submitted', <Moment key="at" at={job.submittedAt} />],
          ['Deadline', <Moment key="deadline" at={job.deadlineAt} />],
          ['Lane', job.lane ?? 'none'],
          ['Priority', job.priority.toLocaleString()],
        ]}
      />
      <h3 className="approval-input">Input</h3>
      <Problem error={error} />
      {data === undefined ? <Loading lines={4} /> : <JsonView label="Input" value={data.input} />}
      {data?.deadlineAt != null && <Note>It ends by itself when its deadline passes, approved or not.</Note>}
    </Panel>
  )
}
