import { lazy, Suspense, useState } from 'react'
import { type Graph, hasCode } from '../../../src/client/index.ts'
import { Choice } from '../parts/controls.tsx'
import { To, useAddress, useParam } from '../parts/link.tsx'
import { NoSuchJob } from '../parts/no-such-job.tsx'
import { Empty, Loading } from '../parts/notes.tsx'
import { Panel } from '../parts/panel.tsx'
import { Problem } from '../parts/problem.tsx'
import { FanOut } from './workflow/fan-out.tsx'
import { WorkflowHead } from './workflow/head.tsx'
import { mostWorthy } from './workflow/most-worthy.ts'
import { RerunDialog } from './workflow/rerun-dialog.tsx'
import { useRights } from './workflow/rights.ts'
import { StepPanel } from './workflow/step-panel.tsx'
import { TreeView } from './workflow/tree.tsx'
import { type GraphStep, useWorkflow } from './workflow/use-workflow.ts'
import { WaterfallView } from './workflow/waterfall.tsx'
import './workflow/workflow.css'

const StepGraph = lazy(() => import('./workflow/graph.tsx').then(({ StepGraph }) => ({ default: StepGraph })))

/** More steps than that are read more easily as a tree; the graph is still one click away. */
const EASY_STEPS = 150

type View = 'graph' | 'tree' | 'time'

/** A workflow, a group or a fan-out: its steps and what they need, what is below them, and where the time went. */
export function Screen() {
  const id = useParam('id')
  const { data, error, refetch } = useWorkflow(id)
  if (data === undefined && error !== null)
    return hasCode(error, 'JOB_NOT_FOUND') ? (
      <NoSuchJob id={id} />
    ) : (
      <Problem error={error} onRetry={() => void refetch()} />
    )
  if (data === undefined) return <Loading lines={14} />
  return (
    <>
      <WorkflowHead graph={data} />
      <Problem error={error} onRetry={() => void refetch()} />
      <Inside key={id} graph={data} />
    </>
  )
}

function Inside({ graph }: { graph: Graph }) {
  const { job } = graph
  const { mayResize } = useRights(graph)
  if (job.kind === null)
    return (
      <Empty title="This job has no steps">
        <span className="in-text">
          <To path={`/jobs/${job.id}`}>Show job</To> with its input, log and result.
        </span>
      </Empty>
    )
  if (job.kind === 'fanout')
    return (
      <Panel title="Children">
        <FanOut job={job} mayResize={mayResize} whole />
      </Panel>
    )
  if (graph.steps.length === 0)
    return (
      <Empty title="Not started yet" command={`sluice why ${job.id}`}>
        Steps appear here once the workflow starts.
      </Empty>
    )
  return <Steps graph={graph} />
}

function Steps({ graph }: { graph: Graph }) {
  const { job, steps } = graph
  const { search, change } = useAddress()
  const { mayResize, mayRetry } = useRights(graph)
  const [rerun, setRerun] = useState<GraphStep>()
  const usual: View = steps.length > EASY_STEPS ? 'tree' : 'graph'
  const view = VIEWS.find(({ value }) => value === search.view)?.value ?? usual
  const [before, setBefore] = useState<string>()
  const chosen = steps.find(({ step }) => step === search.step) ?? mostWorthy(steps, before)
  if (chosen?.step !== before) setBefore(chosen?.step)
  return (
    <>
      <Panel
        title="Steps"
        flush
        aside={
          <Choice label="View" value={view} options={VIEWS} onChange={(value) => change({ view: value })} />
        }
      >
        {view === 'graph' && (
          <Suspense fallback={<div className="graph-place" data-loading="" />}>
            <StepGraph steps={steps} chosen={chosen?.step} onChoose={(step) => change({ step })} />
          </Suspense>
        )}
        {view === 'tree' && <TreeView id={job.id} />}
        {view === 'time' && <WaterfallView id={job.id} />}
      </Panel>
      {view === 'graph' && chosen !== undefined && (
        <StepPanel step={chosen} mayResize={mayResize} onRetry={mayRetry ? setRerun : undefined} />
      )}
      {rerun?.job !== undefined && (
        <RerunDialog
          workflow={job.id}
          step={{ name: rerun.step, id: rerun.job.id, kind: rerun.kind }}
          onClose={() => setRerun(undefined)}
        />
      )}
    </>
  )
}

const VIEWS: readonly { value: View; label: string }[] = [
  { value: 'graph', label: 'Graph' },
  { value: 'tree', label: 'Tree' },
  { value: 'time', label: 'Waterfall' },
]
