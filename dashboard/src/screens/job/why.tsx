import { useQuery } from '@tanstack/react-query'
import type { Job, Why } from '../../../../src/client/index.ts'
import { client } from '../../connection.ts'
import { count } from '../../parts/count.ts'
import { JobLink, To } from '../../parts/link.tsx'
import { Loading } from '../../parts/notes.tsx'
import { Panel } from '../../parts/panel.tsx'
import { Problem } from '../../parts/problem.tsx'
import { Ago, durationWords, Since } from '../../parts/time.tsx'

/** Places in line change without a word from the job itself. */
const LOOK_MS = 3000

/** What the job waits for, in words, with who blocks it and when its turn comes. */
export function WhyWaiting({ job }: { job: Job }) {
  const {
    data: why,
    error,
    refetch,
  } = useQuery({
    queryKey: ['job', job.id, 'why'],
    queryFn: () => client.why(job.id),
    refetchInterval: LOOK_MS,
  })
  return (
    <Panel title={job.status === 'running' ? 'What is this job waiting for?' : 'Why is this job waiting?'}>
      {why === undefined ? (
        error === null ? (
          <Loading lines={2} />
        ) : (
          <Problem error={error} onRetry={() => void refetch()} />
        )
      ) : (
        <Answer why={why} />
      )}
    </Panel>
  )
}

/** Of these it could be told when the turn comes, from how fast others have ended. */
const WAITS_FOR_PLACES: ReadonlySet<Why['wait']['kind']> = new Set([
  'turn',
  'window',
  'lane_full',
  'lane_held',
  'capacity',
  'per_worker',
  'processes',
])

function Answer({ why }: { why: Why }) {
  const { wait, position, estimateSeconds, holders, hiddenHolders, passedOver } = why
  return (
    <div className="why">
      <p className="why-reason">
        {wait.kind === 'lane_paused'
          ? `Lane ${wait.lane} is paused${wait.by === null ? '' : `; last changed by ${wait.by}`}`
          : why.reason}
      </p>
      <ul className="why-facts in-text">
        {position !== null && (
          <li>
            {position === 1 ? 'Next in the queue' : `Position ${position.toLocaleString()} in the queue`}
          </li>
        )}
        {estimateSeconds !== null ? (
          <li>
            {wait.kind === 'children' ? 'Ends' : 'Starts'} in about {durationWords(estimateSeconds * 1000)} at
            the current rate
          </li>
        ) : (
          WAITS_FOR_PLACES.has(wait.kind) && <li>No estimate: no job has ended here recently</li>
        )}
        {wait.until !== null && (
          <li>
            Until <Ago at={wait.until} />
          </li>
        )}
        {wait.lane !== null && (
          <li>
            <To path="/lanes" search={{ lane: wait.lane }}>
              Lane {wait.lane}
            </To>
            {wait.limit !== null && ` has ${wait.inUse ?? 0} of ${wait.limit} in use`}
          </li>
        )}
        {wait.parentId !== null && (
          <li>
            Blocked by <JobLink id={wait.parentId} />
          </li>
        )}
        {why.job.deadlineAt !== null && (
          <li>
            Start deadline: <Ago at={why.job.deadlineAt} />
          </li>
        )}
        {passedOver
          .filter(({ reason }) => reason !== why.reason)
          .map(({ reason, times }) => (
            <li key={reason}>
              Passed over {count(times, 'time')}: {reason}
            </li>
          ))}
      </ul>
      {(holders.length > 0 || hiddenHolders > 0) && (
        <>
          <h3>{wait.kind === 'children' ? 'Current steps' : 'Jobs that run now'}</h3>
          <ul className="why-holders in-text">
            {holders.map(({ jobId, task, worker, since }) => (
              <li key={jobId}>
                <JobLink id={jobId}>
                  {task} <span className="soft">#{jobId}</span>
                </JobLink>{' '}
                <span className="soft why-since">
                  {worker !== null && `on ${worker} `}for <Since at={since} />
                </span>
              </li>
            ))}
            {hiddenHolders > 0 && <li className="soft">and {hiddenHolders} jobs of other owners</li>}
          </ul>
        </>
      )}
    </div>
  )
}
