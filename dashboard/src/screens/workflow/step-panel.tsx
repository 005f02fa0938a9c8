import { Button } from '../../parts/controls.tsx'
import { LongText } from '../../parts/json-view.tsx'
import { JobLink, To } from '../../parts/link.tsx'
import { Facts, Panel } from '../../parts/panel.tsx'
import { hasEnded, StateBadge } from '../../parts/state-badge.tsx'
import { Moment, Took } from '../../parts/time.tsx'
import { FanOut } from './fan-out.tsx'
import { type GraphStep, stateOf } from './use-workflow.ts'

/** The chosen step: what it is, how it stands, and where to go from it. */
export function StepPanel({
  step,
  mayResize,
  onRetry,
}: {
  step: GraphStep
  mayResize: boolean
  onRetry: ((step: GraphStep) => void) | undefined
}) {
  const { job, kind } = step
  return (
    <Panel title={<StepTitle step={step} />} aside={<Ways step={step} onRetry={onRetry} />}>
      {job === undefined ? (
        <p className="soft">Not reached{waitsFor(step)}.</p>
      ) : (
        <>
          {job.error !== null && <LongText text={job.error} label={`Error of ${step.step}`} />}
          {kind === 'fanout' && <FanOut key={job.id} job={job} mayResize={mayResize} />}
          <StepFacts step={step} />
        </>
      )}
    </Panel>
  )
}

function waitsFor({ needs, when }: GraphStep): string {
  const after = needs.length === 0 ? '' : `: runs after ${needs.join(', ')}`
  return when === null ? after : `${after}${after === '' ? ':' : ','} if ${when}`
}

function StepTitle({ step: { step, job } }: { step: GraphStep }) {
  return (
    <span className="step-title">
      {step} <StateBadge state={stateOf(job)} />
    </span>
  )
}

function Ways({ step, onRetry }: { step: GraphStep; onRetry: ((step: GraphStep) => void) | undefined }) {
  const { job, kind } = step
  if (job === undefined) return null
  const opens = kind !== 'task' && job.startedAt !== null
  return (
    <span className="step-ways">
      {opens && (
        <To path={`/workflows/${job.id}`}>{kind === 'fanout' ? 'Show all children' : 'Show steps'}</To>
      )}
      {job.status === 'failed' && <To path={`/trace/${job.id}`}>Trace step</To>}
      <JobLink id={job.id}>Job #{job.id}</JobLink>
      {onRetry !== undefined && hasEnded(job) && (
        <Button small onClick={() => onRetry(step)}>
          Rerun from here…
        </Button>
      )}
    </span>
  )
}

function StepFacts({ step }: { step: GraphStep }) {
  const { job, kind, runs, needs, on, when } = step
  if (job === undefined) return null
  const { startedAt, finishedAt } = job
  return (
    <Facts
      facts={[
        ['Runs', kind === 'group' ? 'group' : kind === 'fanout' ? `${runs ?? 'group'}, once per item` : runs],
        ['After', needs.length === 0 ? '– (first step)' : `${needs.join(', ')}${afterWords(on)}`],
        ...(when === null ? [] : ([['If', <code key="when">{when}</code>]] as const)),
        ['Started', <Moment key="started" at={startedAt} />],
        [
          finishedAt === null ? 'Running for' : 'Duration',
          <Took key="took" startedAt={startedAt} finishedAt={finishedAt} />,
        ],
        ...(kind === 'task' ? ([['Attempts', job.attempt]] as const) : []),
        ...(job.message === null ? [] : ([['Message', job.message]] as const)),
      ]}
    />
  )
}

function afterWords(on: GraphStep['on']): string {
  return on === 'success' ? '' : on === 'failure' ? ', if one of them fails' : ', in any case'
}
