import { useQuery } from '@tanstack/react-query'
import type { Attempt, ErrorDetail, Job } from '../../../../src/client/index.ts'
import { client } from '../../connection.ts'
import { JsonView } from '../../parts/json-view.tsx'

/** What each attempt threw, the latest first and open: class, stack with the task's own frames marked, causes, content. */
export function Thrown({ job }: { job: Job }) {
  const { data: attempts } = useQuery({
    queryKey: ['job', job.id, 'attempts'],
    queryFn: () => client.listAttempts(job.id),
  })
  // The latest comes with the job, so the page does not jump when the attempts arrive.
  const latest = job.errorDetail === null ? [] : [{ attempt: job.attempt, detail: job.errorDetail }]
  const threw = attempts?.filter(hasDetail).reverse() ?? latest
  if (threw.length === 0) return null
  return (
    <div className="thrown">
      {threw.map(({ attempt, detail }, at) => (
        <details key={attempt} open={at === 0}>
          <summary>
            Attempt {attempt} threw <strong>{detail.class}</strong>
          </summary>
          <Detail detail={detail} />
        </details>
      ))}
    </div>
  )
}

function hasDetail(attempt: Attempt): attempt is Attempt & { detail: ErrorDetail } {
  return attempt.detail !== null
}

function Detail({ detail }: { detail: ErrorDetail }) {
  const { class: name, message, stack = [], properties, value, cause, errors = [], cut } = detail
  return (
    <div className="thrown-error">
      <p className="thrown-message">
        <strong>{name}</strong>
        {message !== '' && `: ${message}`}
      </p>
      {stack.length > 0 && (
        <ol className="thrown-stack" aria-label="Stack">
          {stack.map(({ line, own }, at) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: a stack never changes
            <li key={at} data-own={own === true}>
              {own === true && <span className="hidden-visually">Your code: </span>}
              {line}
            </li>
          ))}
        </ol>
      )}
      {properties !== undefined && <JsonView value={properties} label="Properties" />}
      {value !== undefined && JSON.stringify(value) !== message && <JsonView value={value} label="Content" />}
      {errors.map((each, at) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: they never change
        <div key={at} className="thrown-below">
          <p className="soft">
            Error {at + 1} of {errors.length}
          </p>
          <Detail detail={each} />
        </div>
      ))}
      {cause !== undefined && (
        <div className="thrown-below">
          <p className="soft">Caused by</p>
          <Detail detail={cause} />
        </div>
      )}
      {cut === true && <p className="soft">Truncated to 16 kB</p>}
    </div>
  )
}
