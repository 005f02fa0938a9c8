import { useQuery } from '@tanstack/react-query'
import { hasCode, type Trace } from '../../../src/client/index.ts'
import { client } from '../connection.ts'
import { Button } from '../parts/controls.tsx'
import { JobLink, To, useAddress, useParam } from '../parts/link.tsx'
import { NoSuchJob } from '../parts/no-such-job.tsx'
import { Empty, Loading, Note } from '../parts/notes.tsx'
import { PageHead } from '../parts/panel.tsx'
import { Problem } from '../parts/problem.tsx'
import { LevelList } from './trace/level-list.tsx'
import { levelName } from './trace/level-name.ts'
import { LevelView } from './trace/level-view.tsx'
import './workflow/workflow.css'
import './trace/trace.css'

/** A failure followed back, level by level, to where it began: what each got, gave and decided, and how a good one differs. */
export function Screen() {
  const id = useParam('id')
  const { data, error, refetch } = useQuery({
    queryKey: ['trace', id],
    queryFn: () => client.trace(id),
    refetchOnWindowFocus: false,
  })
  if (data === undefined && error === null) return <Loading lines={14} />
  if (data !== undefined) return <Levels key={id} trace={data} />
  if (hasCode(error, 'ILLEGAL_TRANSITION'))
    return (
      <Empty whole title="Nothing has failed in this job" command="sluice ps --status failed">
        There is no failure to trace.{' '}
        <span className="in-text">
          <To path={`/workflows/${id}`}>Show its steps</To>.
        </span>
      </Empty>
    )
  if (hasCode(error, 'JOB_NOT_FOUND')) return <NoSuchJob id={id} command="sluice ps --status failed" />
  return <Problem error={error} onRetry={() => void refetch()} />
}

function Levels({ trace }: { trace: Trace }) {
  const { levels, suspect } = trace
  const { search, change } = useAddress()
  const found = levels.findIndex(({ id }) => id === search.level)
  const at = Math.max(found, 0)
  const level = levels[at]!
  const go = (to: number) => change({ level: levels[to]?.id })
  const failure = levels[0]!
  return (
    <>
      <PageHead
        title={
          <>
            Failure trace of {levelName(failure, levels[1])} <span className="soft">#{failure.id}</span>
          </>
        }
        about={
          <span className="in-text">
            {levels.length === 1
              ? 'Not part of a workflow: one level.'
              : `${levels.length} levels, up to ${levels.at(-1)?.task}.`}{' '}
            <JobLink id={trace.root}>Show job</JobLink>
          </span>
        }
      >
        <Button disabled={at === 0} onClick={() => go(at - 1)}>
          ↑ Closer to the failure
        </Button>
        <Button disabled={at === levels.length - 1} onClick={() => go(at + 1)}>
          ↓ One level up
        </Button>
      </PageHead>
      <Suspect trace={trace} here={at} onGo={go} />
      <div className="trace-columns">
        <LevelList levels={levels} suspect={suspect} at={at} onGo={go} />
        <LevelView key={level.id} trace={trace} at={at} />
      </div>
    </>
  )
}

/** Where to look first. */
function Suspect({
  trace: { levels, suspect },
  here,
  onGo,
}: {
  trace: Trace
  here: number
  onGo: (at: number) => void
}) {
  const at = levels.findIndex(({ id }) => id === suspect)
  const compared = levels.filter(({ comparison }) => comparison !== undefined).length
  if (at < 0)
    return (
      <Note>
        {compared === 0
          ? 'No completed job to compare with yet, neither a sibling nor an earlier run.'
          : 'On every level, the input equals that of a completed job. The cause is not in the input data.'}
      </Note>
    )
  const level = levels[at]!
  return (
    <Note kind="warn">
      Start with <strong>{levelName(level, levels[at + 1])}</strong>: its input differs from that of a
      completed {level.comparison?.how === 'sibling' ? 'sibling' : 'run'} in{' '}
      {level.comparison?.differences.length}
      {level.comparison?.more === true
        ? ' places or more'
        : level.comparison?.differences.length === 1
          ? ' place'
          : ' places'}
      .{' '}
      {at !== here && (
        <Button small onClick={() => onGo(at)}>
          Show level
        </Button>
      )}
    </Note>
  )
}
