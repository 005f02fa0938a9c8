import { useQuery } from '@tanstack/react-query'
import type { Trace } from '../../../../src/client/index.ts'
import { client } from '../../connection.ts'
import { JsonView, LongText } from '../../parts/json-view.tsx'
import { JobLink, To } from '../../parts/link.tsx'
import { Loading } from '../../parts/notes.tsx'
import { Panel } from '../../parts/panel.tsx'
import { Problem } from '../../parts/problem.tsx'
import { StateBadge } from '../../parts/state-badge.tsx'
import { Duration, Moment } from '../../parts/time.tsx'
import { Compare } from './compare.tsx'
import { kindWord, type Level, levelName } from './level-name.ts'
import { RunAgain } from './run-again.tsx'
import { Verdict } from './verdict.tsx'

/** One level: how it ended and why, what it got and gave, and how that compares with a good one. */
export function LevelView({ trace, at }: { trace: Trace; at: number }) {
  const { levels } = trace
  const level = levels[at]!
  const { data: job, error } = useQuery({
    queryKey: ['job', level.id, 'itself'],
    queryFn: () => client.getJob(level.id),
  })
  return (
    <div id="level" role="tabpanel" aria-labelledby={`level-${level.id}`} className="level-view">
      <Panel
        title={
          <span className="step-title">
            {levelName(level, levels[at + 1])} <StateBadge state={level.status} />
          </span>
        }
        aside={<RunAgain trace={trace} at={at} submittedBy={job?.submittedBy} />}
      >
        <About level={level} />
        {level.error !== null && <LongText text={level.error} label="Error" />}
        <Verdict level={level} />
      </Panel>
      <Compare key={level.id} level={level} job={job} />
      <div className="level-data">
        <Panel
          title={level.kind === 'group' || level.kind === 'fanout' ? 'Values from the workflow' : 'Input'}
        >
          <JsonView value={level.input} label="Input" />
          <Sources level={level} />
        </Panel>
        <Panel title="Result">
          <Problem error={error} />
          {job === undefined ? (
            error === null && <Loading lines={3} />
          ) : job.status === 'completed' ? (
            <JsonView value={job.result} label="Result" />
          ) : (
            <p className="soft">
              No result: the job {job.status === 'failed' ? 'failed' : `is ${job.status}`}.
            </p>
          )}
        </Panel>
      </div>
    </div>
  )
}

/** Where to go on when what came in is wrong. */
function Sources({ level: { sources = [] } }: { level: Level }) {
  if (sources.length === 0) return null
  return (
    <p className="in-text">
      Built from the results of{' '}
      {sources.map(({ step, id }, at) => (
        <span key={step}>
          {at > 0 && ', '}
          {id === null ? step : <JobLink id={id}>{step}</JobLink>}
        </span>
      ))}
      .
    </p>
  )
}

function About({ level }: { level: Level }) {
  const { startedAt, finishedAt } = level
  return (
    <p className="level-facts in-text">
      <span>
        {kindWord(level)} {level.task}
      </span>
      <JobLink id={level.id} />
      {level.kind !== null && <To path={`/workflows/${level.id}`}>Show steps</To>}
      {startedAt !== null && (
        <span>
          started <Moment at={startedAt} />
        </span>
      )}
      {startedAt !== null && finishedAt !== null && (
        <span>
          took <Duration ms={finishedAt.getTime() - startedAt.getTime()} />
        </span>
      )}
      {level.attempts > 1 && <span>{level.attempts} attempts</span>}
    </p>
  )
}
