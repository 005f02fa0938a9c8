import type { JobSummary } from '../../../../src/client/index.ts'
import { useLaneReason } from '../../live/now.ts'
import { To } from '../../parts/link.tsx'
import { Meter } from '../../parts/meter.tsx'
import { StateBadge, shownState } from '../../parts/state-badge.tsx'
import { StepOf } from '../../parts/step-of.tsx'
import type { Column } from '../../parts/table.tsx'
import { Ago, Took } from '../../parts/time.tsx'

/** A job in a line. */
export const JOB_COLUMNS: readonly Column<JobSummary>[] = [
  {
    id: 'state',
    phone: '160px',
    head: 'State',
    width: '168px',
    cell: (job) => <StateBadge state={shownState(job)} />,
  },
  {
    id: 'job',
    head: 'Job',
    width: '21%',
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
    width: '106px',
    phone: false,
    cell: ({ lane, kind }) => lane ?? <span className="soft">{kind}</span>,
  },
  {
    id: 'key',
    head: 'Key, tags, place',
    width: '136px',
    phone: 'below',
    cell: (job) => <Labels job={job} />,
  },
  {
    id: 'what',
    head: 'What happens',
    phone: 'below',
    cell: (job) => <Happening job={job} />,
  },
  {
    id: 'took',
    head: 'Took',
    width: '96px',
    align: 'right',
    phone: false,
    // Waits for another attempt: what the last one took is not what the job takes.
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

/** Of a step its place in a workflow: it has neither key nor tags of its own. */
function Labels({ job }: { job: JobSummary }) {
  const { key, tags } = job
  if (job.rootId !== null) return <StepOf job={job} short />
  if (key === null && tags.length === 0) return null
  return (
    <span title={[key, ...tags].filter(Boolean).join(', ')}>
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

/** The one thing worth knowing: why it failed, how far it is, when it goes on. */
function Happening({ job }: { job: JobSummary }) {
  if (job.below !== undefined && job.error === null) return <HowFar job={job} below={job.below} />
  if (job.kind === 'workflow' && job.error === null)
    return <To path={`/workflows/${job.id}`}>{job.status === 'running' ? 'How far it is' : 'Its steps'}</To>
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
        <span className="soft" title={job.message ?? undefined}>
          {job.message ?? (job.worker === null ? '' : `on ${job.worker}`)}
        </span>
      </span>
    )
  if (job.error !== null)
    return (
      <span className={job.status === 'failed' ? 'job-error' : 'soft'} title={job.error}>
        {job.error}
      </span>
    )
  if (job.state === 'scheduled')
    return (
      <span className="soft">
        Runs <Ago at={job.readyAt} />
      </span>
    )
  if (job.state === 'waiting') return <span className="soft">waits for what is above it</span>
  if (job.status === 'queued' && job.lane !== null) return <InTheWay lane={job.lane} />
  return null
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
      <span className="happening-words" title={words}>
        <To path={`/workflows/${job.id}`}>{words}</To>
      </span>
    </span>
  )
}

function share({ ended, total }: { ended: number; total: number }): string {
  return `${ended.toLocaleString()} of ${total.toLocaleString()}`
}

/** Why jobs of its lane wait, as the live picture has it; its own page knows more. */
function InTheWay({ lane }: { lane: string }) {
  const reason = useLaneReason(lane)
  return (
    reason !== null && (
      <span className="soft" title={reason}>
        {reason}
      </span>
    )
  )
}
