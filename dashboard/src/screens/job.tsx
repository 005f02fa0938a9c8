import { useQuery } from '@tanstack/react-query'
import type { Job } from '../../../src/client/index.ts'
import { hasCode, wasRejected } from '../../../src/client/index.ts'
import { client } from '../connection.ts'
import { JsonView, LongText } from '../parts/json-view.tsx'
import { JobLink, To, useParam } from '../parts/link.tsx'
import { Meter } from '../parts/meter.tsx'
import { NoSuchJob } from '../parts/no-such-job.tsx'
import { Loading } from '../parts/notes.tsx'
import { Facts, PageHead, Panel } from '../parts/panel.tsx'
import { Problem } from '../parts/problem.tsx'
import { hasEnded, StateBadge, shownState, waitsForWhole } from '../parts/state-badge.tsx'
import { Ago, Duration, Moment, Since } from '../parts/time.tsx'
import { JobActions } from './job/actions.tsx'
import { JobLog } from './job/log.tsx'
import { Replaced } from './job/replaced.tsx'
import { JobSteps } from './job/steps.tsx'
import { Thrown } from './job/thrown.tsx'
import { Timeline } from './job/timeline.tsx'
import { useJobStream } from './job/use-job-stream.ts'
import { WhyWaiting } from './job/why.tsx'
import './job/job.css'

/** What the text of its error tells. */
const ERROR_TITLES: Readonly<Partial<Record<Job['status'], string>>> = {
  failed: 'Why it failed',
  cancelled: 'Why it was cancelled',
  skipped: 'Why it was skipped',
}

const WHOLE_MS = 3000

/** One job: what it is, why it waits or failed, what it did, and what can be done with it. */
export function Screen() {
  const id = useParam('id')
  const {
    data: job,
    error,
    refetch,
    dataUpdatedAt,
  } = useQuery({
    queryKey: ['job', id, 'itself'],
    queryFn: () => client.getJob(id),
    // The stream of a job is over when it has ended; the whole it is part of goes on, and decides whether it can run again.
    refetchInterval: ({ state: { data } }) =>
      data !== undefined && hasEnded(data) && waitsForWhole(data) ? WHOLE_MS : false,
  })
  const stream = useJobStream(id, job, dataUpdatedAt)
  if (job === undefined && error !== null)
    return hasCode(error, 'JOB_NOT_FOUND') ? (
      <NoSuchJob id={id} />
    ) : (
      <Problem error={error} onRetry={() => void refetch()} />
    )
  if (job === undefined) return <Loading lines={14} />
  const waits = job.status === 'queued' || job.status === 'awaiting_approval'
  return (
    <>
      <PageHead
        title={
          <>
            {job.task} <span className="soft">#{job.id}</span>
          </>
        }
        about={<HeadLine job={job} />}
      >
        <JobActions job={job} />
      </PageHead>
      {job.superseded && <Replaced job={job} />}
      {job.status === 'running' && job.progress !== null && <Progress job={job} />}
      {job.error !== null && (
        <Panel title={ERROR_TITLES[job.status] ?? 'Last error'}>
          <LongText text={job.error} label="Error" />
          {job.kind === null && <Thrown job={job} />}
          {job.status === 'failed' && (
            <p className="job-trace">
              <To path={`/trace/${job.id}`}>Trace the failure to its cause</To>
            </p>
          )}
        </Panel>
      )}
      {(job.kind === 'workflow' || job.kind === 'group') && <JobSteps key={job.id} job={job} />}
      {(waits || (job.status === 'running' && job.kind !== null)) && <WhyWaiting job={job} />}
      <div className="job-columns">
        <div>
          {job.status === 'completed' && (
            <Panel title="Result">
              <JsonView value={job.result} label="Result" />
            </Panel>
          )}
          {job.kind === null && (
            <Panel title="Log" aside={stream.ended ? undefined : 'live'}>
              <JobLog job={job} stream={stream} />
            </Panel>
          )}
          <Panel title="Input">
            <JsonView value={job.input} label="Input" />
          </Panel>
          {job.checkpoint !== null && (
            <Panel title="Checkpoint">
              <JsonView value={job.checkpoint} label="Checkpoint" />
            </Panel>
          )}
        </div>
        <div>
          <Panel title="Timeline">
            <Timeline job={job} />
          </Panel>
          <Panel title="Details">
            <Details job={job} />
          </Panel>
        </div>
      </div>
    </>
  )
}

function HeadLine({ job }: { job: Job }) {
  return (
    <span className="job-headline">
      <StateBadge state={shownState(job)} />
      {job.status === 'running' && job.startedAt !== null && (
        <span>
          for <Since at={job.startedAt} />
          {job.worker !== null && ` on ${job.worker}`}
        </span>
      )}
      {job.finishedAt !== null && (
        <span>
          <Ago at={job.finishedAt} />
          {job.startedAt !== null && (
            <>
              , took <Duration ms={job.finishedAt.getTime() - job.startedAt.getTime()} />
            </>
          )}
        </span>
      )}
      {job.state === 'scheduled' && (
        <span>
          runs <Ago at={job.readyAt} />
        </span>
      )}
      {job.kind !== null && (
        <To path={`/workflows/${job.id}`}>{job.kind === 'fanout' ? 'Open children' : 'Open workflow'}</To>
      )}
      {job.rootId !== null && job.rootId !== job.id && (
        <span>
          step {job.step ?? ''} of{' '}
          <To path={`/workflows/${job.rootId}`}>
            {job.workflow} #{job.rootId}
          </To>
        </span>
      )}
    </span>
  )
}

function Progress({ job }: { job: Job }) {
  const percent = Math.round((job.progress ?? 0) * 100)
  return (
    <div className="job-progress">
      <Meter label="Progress" limit={100} parts={[{ label: 'percent', value: percent, tone: 'running' }]} />
      <p>
        <strong>{percent} %</strong> {job.message}
      </p>
    </div>
  )
}

function Details({ job }: { job: Job }) {
  return (
    <Facts
      facts={[
        [
          'Lane',
          job.lane === null ? (
            (job.kind ?? '–')
          ) : (
            <To key="lane" path="/lanes" search={{ lane: job.lane }}>
              {job.lane}
            </To>
          ),
        ],
        ['Priority', job.priority],
        ...(job.model === null ? [] : ([['Model', job.model]] as const)),
        ...(job.devices.length === 0 ? [] : ([['Devices', job.devices.join(', ')]] as const)),
        ...(job.kind === null ? ([['Attempts', `${job.attempt} started`]] as const) : []),
        // A retry counts failures anew, while starts go on.
        ...(job.failures + job.losses === 0
          ? []
          : ([['Toward the retry limit', `${job.failures} failed, ${job.losses} lost`]] as const)),
        ['Submitted', <Moment key="at" at={job.submittedAt} />],
        ['Submitted by', job.submittedBy ?? '–'],
        ...(job.approvedBy === null
          ? []
          : ([[wasRejected(job) ? 'Rejected by' : 'Approved by', job.approvedBy]] as const)),
        ...(job.resubmitOf === null
          ? []
          : ([['Resubmission of', <JobLink key="of" id={job.resubmitOf} />]] as const)),
        ...(job.resubmittedAs.length === 0
          ? []
          : ([
              [
                'Resubmitted as',
                <span key="as">
                  {job.resubmittedAs.map((id, n) => (
                    <span key={id}>
                      {n > 0 && ', '}
                      <JobLink id={id} />
                    </span>
                  ))}
                </span>,
              ],
            ] as const)),
        ...(job.deadlineAt === null || job.startedAt !== null || job.finishedAt !== null
          ? []
          : ([['Start deadline', <Ago key="deadline" at={job.deadlineAt} />]] as const)),
        [
          'Key',
          job.key === null ? (
            '–'
          ) : (
            <To key="key" path="/jobs" search={{ key: job.key }}>
              {job.key}
            </To>
          ),
        ],
        [
          'Tags',
          job.tags.length === 0
            ? '–'
            : job.tags.map((tag) => (
                <To key={tag} path="/jobs" search={{ tag }} className="tag">
                  {tag}
                </To>
              )),
        ],
        ...(job.parentId === null ? [] : ([['Parent', <JobLink key="parent" id={job.parentId} />]] as const)),
      ]}
    />
  )
}
