import type { JobSummary } from '../../../../src/client/index.ts'
import { JobLink, To } from '../../parts/link.tsx'
import { Meter } from '../../parts/meter.tsx'
import { StateBadge, shownState } from '../../parts/state-badge.tsx'
import type { Column } from '../../parts/table.tsx'
import { Ago, Took } from '../../parts/time.tsx'

/** A job in a line. */
export const JOB_COLUMNS: readonly Column<JobSummary>[] = [
  {
    id: 'state',
    phone: '142px',
    head: 'State',
    width: '164px',
    cell: (job) => <StateBadge state={shownState(job)} />,
  },
  {
    id: 'job',
    head: 'Job',
    width: '22%',
    cell: (job) => (
      <span title={job.task}>
        <JobLink id={job.id}>
          {job.task} <span className="soft">#{job.id}</span>
        </JobLink>
      </span>
    ),
  },
  {
    id: 'lane',
    head: 'Lane',
    width: '11%',
    phone: false,
    cell: ({ lane, kind }) => lane ?? <span className="soft">{kind}</span>,
  },
  {
    id: 'key',
    head: 'Key, tags',
    width: '13%',
    phone: false,
    cell: (job) => <Labels job={job} />,
  },
  {
    id: 'what',
    head: 'What happens',
    phone: false,
    cell: (job) => <Happening job={job} />,
  },
  {
    id: 'took',
    head: 'Took',
    width: '92px',
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
    phone: '86px',
    head: 'Submitted',
    width: '112px',
    align: 'right',
    cell: ({ submittedAt }) => <Ago at={submittedAt} />,
  },
]

function Labels({ job: { key, tags } }: { job: JobSummary }) {
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
  return null
}
