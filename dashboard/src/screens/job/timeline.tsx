import { useQuery } from '@tanstack/react-query'
import type { Job } from '../../../../src/client/index.ts'
import { client } from '../../connection.ts'
import { Loading } from '../../parts/notes.tsx'
import { Problem } from '../../parts/problem.tsx'
import { Duration, Moment } from '../../parts/time.tsx'

/** Every attempt, where it ran and how it ended. */
export function Timeline({ job }: { job: Job }) {
  const {
    data: attempts,
    error,
    refetch,
  } = useQuery({
    queryKey: ['job', job.id, 'attempts'],
    queryFn: () => client.listAttempts(job.id),
  })
  if (attempts === undefined)
    return error === null ? <Loading /> : <Problem error={error} onRetry={() => void refetch()} />
  return (
    <ol className="timeline">
      <li>
        <Moment at={job.submittedAt} /> <strong>Submitted</strong>
        {job.submittedBy !== null && ` by ${job.submittedBy}`}
      </li>
      {attempts.map(({ attempt, worker, startedAt, endedAt, ending, error: text }) => (
        <li key={attempt}>
          <Moment at={startedAt} /> <strong>Attempt {attempt}</strong>
          {worker !== null && ` on ${worker}`}: {ending}
          {startedAt !== null && endedAt !== null && (
            <>
              {' after '}
              <Duration ms={endedAt.getTime() - startedAt.getTime()} />
            </>
          )}
          {text !== null && <p className="timeline-error">{text}</p>}
        </li>
      ))}
    </ol>
  )
}
