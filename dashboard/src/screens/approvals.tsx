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
              <Empty title="No jobs need approval">
                Jobs of tasks with <code>approval: true</code> wait here until someone other than their
                submitter approves them.
              </Empty>
            }
          />
        )}
        {data !== undefined && data.next !== null && (
          <p className="approvals-more">
            <To path="/jobs" search={{ tab: 'approval' }}>
              Show all
            </To>
          </p>
        )}
      </Panel>
    </>
  )
}

function waitingWords(number: number, more: boolean): string {
  if (number === 0) return 'No jobs need approval'
  return `${more ? 'More than ' : ''}${count(number, 'job needs', 'jobs need')} approval`
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
              title: `Approve ${name}`,
              effect: (
                <>
                  <p>The job joins the queue and starts when its turn comes.</p>
                  <Asked job={job} />
                </>
              ),
              action: 'Approve job',
              run: async (reason) => {
                await because(reason).approve(job.id)
                await refresh()
                return `Approved job #${job.id}`
              },
            }
          : {
              title: `Reject ${name}`,
              effect: (
                <>
                  <p>The job is cancelled and never runs. Its submitter can read your reason.</p>
                  <Asked job={job} />
                </>
              ),
              action: 'Reject job',
              danger: true,
              reason: 'required',
              run: async (reason) => {
                await because(reason).reject(job.id, reason)
                await refresh()
                return `Rejected job #${job.id}`
              },
            }
      ask(question)
    },
    [ask],
  )
}

/** What is being judged: nobody should have to remember the row behind the question. */
function Asked({ job: { task, key, submittedBy, inputPreview } }: { job: JobSummary }) {
  return (
    <p>
      {task}
      {key !== null && `, key ${key}`}
      {submittedBy !== null && `, submitted by ${submittedBy}`}
      {inputPreview !== undefined && (
        <>
          , input <code>{inputPreview}</code>
        </>
      )}
    </p>
  )
}

function columnsWith(act: Judgement): readonly Column<JobSummary>[] {
  return [
    { id: 'id', head: 'Job', width: '84px', phone: '90px', cell: ({ id }) => <JobLink id={id} /> },
    { id: 'task', head: 'Task', width: '15%', wrap: true, cell: ({ task }) => task },
    {
      id: 'of',
      head: 'Step of',
      width: '15%',
      phone: 'below',
      wrap: true,
      has: ({ rootId }) => rootId !== null,
      cell: (job) => <StepOf job={job} />,
    },
    {
      id: 'input',
      head: 'Input',
      phone: 'below',
      cell: ({ inputPreview }) =>
        inputPreview === undefined ? (
          <span className="soft">large: open the job</span>
        ) : (
          <code className="clamp" title={inputPreview}>
            {inputPreview}
          </code>
        ),
    },
    {
      id: 'key',
      head: 'Key',
      width: '110px',
      phone: 'below',
      wrap: true,
      has: ({ key }) => key !== null,
      cell: ({ key }) => key,
    },
    {
      id: 'tags',
      head: 'Tags',
      width: '96px',
      phone: 'below',
      wrap: true,
      has: ({ tags }) => tags.length > 0,
      cell: ({ tags }) => tags.join(', '),
    },
    {
      id: 'by',
      head: 'Submitted by',
      width: '116px',
      phone: 'below',
      wrap: true,
      cell: ({ submittedBy }) => submittedBy ?? '–',
    },
    {
      id: 'since',
      head: 'Waiting since',
      width: '112px',
      phone: 'below',
      cell: ({ submittedAt }) => <Ago at={submittedAt} />,
    },
    {
      id: 'actions',
      head: <span className="hidden-visually">Actions</span>,
      width: '204px',
      align: 'right',
      phone: 'below',
      cell: (job) => <Buttons job={job} act={act} />,
    },
  ]
}

/** Nobody judges their own: the server refuses it, so it is not offered. */
function Buttons({ job, act }: { job: JobSummary; act: Judgement }) {
  const { session } = useSession()
  if (job.submittedBy === session.name) return <span className="soft">your own job</span>
  return (
    <span className="approval-buttons">
      <Button small kind="primary" aria-label={`Approve job ${job.id}`} onClick={() => act('approve', job)}>
        Approve…
      </Button>
      <Button small kind="danger" aria-label={`Reject job ${job.id}`} onClick={() => act('reject', job)}>
        Reject…
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
          ['Submitted by', job.submittedBy ?? 'unknown'],
          ['Submitted', <Moment key="at" at={job.submittedAt} />],
          ['Deadline', <Moment key="deadline" at={job.deadlineAt} />],
          ['Key', job.key ?? '–'],
          ['Lane', job.lane ?? '–'],
          ['Priority', job.priority.toLocaleString()],
        ]}
      />
      <h3 className="approval-input">Input</h3>
      <Problem error={error} />
      {data === undefined ? <Loading lines={4} /> : <JsonView label="Input" value={data.input} />}
      {data?.deadlineAt != null && (
        <Note>The job fails if it has not started by its deadline, approved or not.</Note>
      )}
    </Panel>
  )
}
