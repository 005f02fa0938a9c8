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
            Trace failure
          </To>
        )}
        {stuck && rights.mayRetry && (
          <Button kind="primary" onClick={act.retryFailed}>
            Retry failed steps…
          </Button>
        )}
        {rights.mayCancel && (
          <Button kind="danger" onClick={act.cancel}>
            Cancel…
          </Button>
        )}
        <To path={`/jobs/${job.id}`} className="button">
          Job details
        </To>
      </PageHead>
      {graph.superseded && <Note>A rerun has replaced this part of the workflow.</Note>}
    </>
  )
}

function Crumbs({ path, name }: { path: Graph['path']; name: string }) {
  return (
    <nav className="crumbs" aria-label="Path in the workflow">
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
        title: `Retry failed steps of ${name}`,
        effect:
          'Failed and cancelled steps run again, and so do the steps that depend on them. Completed steps are kept.',
        action: 'Retry steps',
        run: async (reason) => {
          const { jobs } = await because(reason).retry(job.id, { failed: true })
          await changed()
          return `${count(jobs, 'job runs', 'jobs run')} again`
        },
      }),
    cancel: () =>
      ask({
        title: `Cancel ${name}`,
        effect: 'Waiting steps never start. Running steps are asked to stop. Completed steps are kept.',
        action: 'Cancel workflow',
        danger: true,
        run: async (reason) => {
          await because(reason).cancel(job.id, reason === '' ? undefined : reason)
          await changed()
          return `Cancelling ${name}`
        },
      }),
  }
}
