import type { Reruns } from '../../../src/client/index.ts'
import { count } from './count.ts'

/** Workflows that are named; the rest are counted. */
const MOST_NAMED = 5

/** What a retry will run: each workflow with the number of its jobs, and what is left out. */
export function RerunSummary({ matched, reruns }: { matched: number; reruns: Reruns }) {
  const { jobs, workflows, leftOut } = reruns
  const others = workflows.slice(MOST_NAMED)
  return (
    <>
      <p>
        {count(matched, 'failure')} found. {jobs === 1 ? '1 job runs' : `${jobs.toLocaleString()} jobs run`}{' '}
        again{workflows.length === 0 ? '.' : '. A workflow reruns all its failed steps at once:'}
      </p>
      {workflows.length > 0 && (
        <ul>
          {workflows.slice(0, MOST_NAMED).map(({ name, runs, jobs: own }) => (
            <li key={name}>
              <strong>{name}</strong>: {count(own, 'job')} in {count(runs, 'run')}
            </li>
          ))}
          {others.length > 0 && <li>and {count(others.length, 'other workflow')}</li>}
        </ul>
      )}
      {leftOut > 0 && (
        <p>
          {count(leftOut, 'failure is', 'failures are')} left out, because the workflow was cancelled. Retry
          such a job on its own page.
        </p>
      )}
    </>
  )
}
