import type { Graph } from '../../../../src/client/index.ts'
import { because, queries } from '../../connection.ts'
import { useAsk } from '../../parts/ask.tsx'
import { Button } from '../../parts/controls.tsx'
import { count } from '../../parts/count.ts'
import { To } from '../../parts/link.tsx'
import { Note } from '../../parts/notes.tsx'
import { PageHead } from '../../parts/panel.tsx'
import { hasEnded, StateBadge } from '../../parts/state-badge.tsx'
import { Ago, Duration, Since } from '../../parts/time.tsx'
import { useRights } from './rights.ts'
import { stateOf } from './use-workflow.ts'

/** Where in the tree this is, how it stands, and what can be done with the whole of it. */
export function WorkflowHead({ graph }: { graph: Graph }) {
  const { job, path } = graph
  const rights = useRights(graph)
  const act = useActions(graph)
  const parent = path.at(-1)
  const name =
    parent === undefined ? job.task : parent.kind === 'fanout' ? `[${job.index}]` : (job.step ?? job.task)
  const stuck = job.status === 'failed' || job.status === 'cancelled'
  return (
    <>
      {path.length > 0 && <Crumbs path={path} name={name} />}
      <PageHead
        title={
          <>
            {name} <span className="soft">#{job.id}</span>
          </>
        }
        about={<HeadLine graph={graph} />}
      >
        {job.status === 'failed' && (
          <To path={`/trace/${job.id}`} className="button">
            Follow the failure back
          </To>
        )}
        {stuck && rights.mayRetry && (
          <Button kind="primary" onClick={act.retryFailed}>
            Retry what failed …
          </Button>
        )}
        {rights.mayCancel && (
          <Button kind="danger" onClick={act.cancel}>
            Cancel …
          </Button>
        )}
        <To path={`/jobs/${job.id}`} className="button">
          Its job
        </To>
      </PageHead>
      {graph.superseded && <Note>This is history: what it is part of was run again, and this with it.</Note>}
    </>
  )
}

function Crumbs({ path, name }: { path: Graph['path']; name: string }) {
  return (
    <nav className="crumbs" aria-label="Where this is in the workflow">
      <ol>
        {path.map((each, at) => (
          <li key={each.id}>
            <To path={`/workflows/${each.id}`}>
              {at === 0 && each.step === null
                ? each.task
                : path[at - 1]?.kind === 'fanout'
                  ? `[${each.index}]`
                  : (each.step ?? each.task)}
            </To>
          </li>
        ))}
        <li aria-current="page">{name}</li>
      </ol>
    </nav>
  )
}

function HeadLine({ graph: { job, steps } }: { graph: Graph }) {
  const { startedAt, finishedAt, counts } = job
  const done = steps.filter((step) => step.job !== undefined && hasEnded(step.job)).length
  return (
    <span className="headline">
      <StateBadge state={stateOf(job)} />
      {steps.length > 0 && (
        <span>
          {done} of {count(steps.length, 'step')} ended
        </span>
      )}
      {counts !== undefined && <span>fan-out of {counts.total.toLocaleString()}</span>}
      {startedAt !== null && finishedAt === null && (
        <span>
          for <Since at={startedAt} />
        </span>
      )}
      {finishedAt !== null && (
        <span>
          <Ago at={finishedAt} />
          {startedAt !== null && (
            <>
              , took <Duration ms={finishedAt.getTime() - startedAt.getTime()} />
            </>
          )}
        </span>
      )}
    </span>
  )
}

function useActions({ job }: Graph) {
  const ask = useAsk()
  const name = `${job.task} #${job.id}`
  const changed = () => queries.invalidateQueries({ queryKey: ['workflow'] })
  return {
    retryFailed: () =>
      ask({
        title: `Retry what failed in ${name}`,
        effect:
          'What failed or was cancelled below it runs again, with what follows from that and everything above it. What has completed is kept.',
        action: 'Retry',
        run: async (reason) => {
          const { jobs } = await because(reason).retry(job.id, { failed: true })
          await changed()
          return `${count(jobs, 'job runs', 'jobs run')} again`
        },
      }),
    cancel: () =>
      ask({
        title: `Cancel ${name}`,
        effect: 'What waits below it never starts; what runs is asked to stop. What is done stays done.',
        action: 'Cancel it',
        danger: true,
        run: async (reason) => {
          await because(reason).cancel(job.id, reason === '' ? undefined : reason)
          await changed()
          return `${name} is being cancelled`
        },
      }),
  }
}
