import type { JobSummary } from '../../../../src/client/index.ts'
import { To } from '../../parts/link.tsx'
import { Meter } from '../../parts/meter.tsx'
import { StateBadge, shownState } from '../../parts/state-badge.tsx'
import { StepOf } from '../../parts/step-of.tsx'
import type { Column } from '../../parts/table.tsx'
import { Ago, Took } from '../../parts/time.tsx'

/** What the main column of a tab shows. Under tabs with jobs in many states it differs from row to row. */
const DETAILS: Readonly<Record<string, string>> = {
  queued: 'Blocked by',
  running: 'Progress',
  scheduled: 'Start',
  retrying: 'Last error',
  failed: 'Error',
  cancelled: 'Reason',
  approval: 'Input',
}

/** The columns of a list of jobs under a tab. What no row has leaves its width to the reason. */
export function jobColumns(tab: string, rows: readonly JobSummary[]): readonly Column<JobSummary>[] {
  const wide = rows.some(({ status }) => status === 'awaiting_approval')
  return [
    {
      id: 'state',
      phone: wide ? '160px' : '128px',
      head: 'State',
      width: wide ? '164px' : '132px',
      cell: (job) => <StateBadge state={shownState(job)} />,
    },
    {
      id: 'job',
      head: 'Job',
      width: '20%',
      cell: (job) => (
        <span title={job.task}>
          <To path={job.kind === null ? `/jobs/${job.id}` : `/workflows/${job.id}`}>
            {job.task} <span className="soft">#{job.id}</span>
          </To>
        </span>
      ),
    },
    {
      id: 'lane',
      head: 'Lane',
      width: '122px',
      phone: false,
      cell: ({ lane, kind }) =>
        lane === null ? <span className="soft">{kind}</span> : <span title={lane}>{lane}</span>,
    },
    {
      id: 'key',
      head: rows.some(({ rootId }) => rootId !== null) ? 'Labels, step of' : 'Key, tags',
      width: '126px',
      phone: 'below',
      has: ({ key, tags, rootId }) => key !== null || tags.length > 0 || rootId !== null,
      cell: (job) => <Labels job={job} />,
    },
    {
      id: 'priority',
      head: 'Priority',
      width: '72px',
      phone: 'below',
      align: 'right',
      ...(tab !== 'queued' && { has: ({ priority }) => priority !== 0 }),
      cell: ({ priority }) =>
        priority === 0 ? <span className="soft priority-none">0</span> : priority.toLocaleString(),
    },
    {
      id: 'what',
      head: DETAILS[tab] ?? 'Details',
      phone: 'below',
      cell: (job) => <Happening job={job} tab={tab} />,
    },
    {
      id: 'took',
      head: 'Duration',
      width: '92px',
      align: 'right',
      phone: false,
      // A job that waits for another attempt: how long the last one ran is not how long the job takes.
      has: ({ status, startedAt }) => status !== 'queued' && startedAt !== null,
      cell: ({ status, startedAt, finishedAt }) =>
        status === 'queued' ? (
          <span className="soft">–</span>
        ) : (
          <Took startedAt={startedAt} finishedAt={finishedAt} />
        ),
    },
    {
      id: 'submitted',
      phone: 'below',
      head: 'Submitted',
      width: '96px',
      align: 'right',
      cell: ({ submittedAt }) => <Ago at={submittedAt} />,
    },
  ]
}

/** Of a step its place in a workflow: it has neither key nor tags of its own. */
function Labels({ job }: { job: JobSummary }) {
  const { key, tags } = job
  if (job.rootId !== null) return <StepOf job={job} short />
  if (key === null && tags.length === 0) return null
  return (
    <span className="labels" title={[key, ...tags].filter(Boolean).join(', ')}>
      {key !== null && (
        <To path="/jobs" search={{ key }}>
          {key}
        </To>
      )}
      {tags.map((tag) => (
        <To key={tag} path="/jobs" search={{ tag }} className="tag">
          {tag}
        </To>
      ))}
    </span>
  )
}

/** The one thing worth knowing: why it failed, how far it is, what blocks it. */
function Happening({ job, tab }: { job: JobSummary; tab: string }) {
  if (job.below !== undefined && job.error === null) return <HowFar job={job} below={job.below} />
  if (job.kind === 'workflow' && job.error === null) return <To path={`/workflows/${job.id}`}>Show steps</To>
  if (job.status === 'running')
    return (
      <span className="happening">
        {job.progress !== null && (
          <span className="happening-meter">
            <Meter
              label={`Progress of job ${job.id}`}
              limit={100}
              parts={[{ label: 'percent', value: Math.round(job.progress * 100), tone: 'running' }]}
            />
          </span>
        )}
        <span className="soft clamp" title={job.message ?? undefined}>
          {job.message ?? (job.worker === null ? '' : `on ${job.worker}`)}
        </span>
      </span>
    )
  if (job.error !== null)
    return (
      <span className={job.status === 'failed' ? 'job-error clamp' : 'soft clamp'} title={job.error}>
        {job.error}
      </span>
    )
  if (tab === 'approval') return <code className="soft clamp">{job.inputPreview}</code>
  if (job.state === 'scheduled')
    return (
      <span className="soft">
        Starts <Ago at={job.readyAt} />
      </span>
    )
  if (job.state === 'waiting') return <span className="soft">waiting for its workflow</span>
  const reason =
    job.blockedBy ?? (job.status === 'queued' && job.worker !== null && `assigned to ${job.worker}`)
  return reason ? <span className="soft clamp">{reason}</span> : null
}

/** How many of its steps or children have ended; of a workflow also those of the fan-out it is at. */
function HowFar({ job, below }: { job: JobSummary; below: NonNullable<JobSummary['below']> }) {
  const { fanOut, waitsFor } = below
  const far =
    job.kind === 'fanout'
      ? `${share(below)} children`
      : [
          ...(fanOut === undefined ? [] : [`${share(fanOut)} in ${fanOut.step}`]),
          `${share(below)} ${below.total === 1 ? 'step' : 'steps'}`,
        ].join(', ')
  const { willFail, paused } = fanOut ?? below
  const words = [
    far,
    ...(paused === true ? ['paused'] : []),
    ...(willFail === undefined ? [] : [`will fail: ${willFail}`]),
    ...(waitsFor === undefined || fanOut?.step === waitsFor.step ? [] : [waitsFor.text]),
  ].join('; ')
  const { ended, total } = fanOut ?? below
  return (
    <span className="happening">
      <span className="happening-meter">
        <Meter
          label={`Progress of job ${job.id}`}
          limit={total}
          parts={[{ label: 'ended', value: ended, tone: 'running' }]}
        />
      </span>
      <span className="happening-words clamp" title={words}>
        <To path={`/workflows/${job.id}`}>{words}</To>
      </span>
    </span>
  )
}

function share({ ended, total }: { ended: number; total: number }): string {
  return `${ended.toLocaleString()} of ${total.toLocaleString()}`
}
