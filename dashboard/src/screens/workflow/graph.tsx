import {
  Background,
  Controls,
  type Edge,
  Handle,
  MarkerType,
  type Node,
  type NodeChange,
  type NodeProps,
  Position,
  ReactFlow,
} from '@xyflow/react'
import '@xyflow/react/dist/base.css'
import { useMemo, useSyncExternalStore } from 'react'
import { StateBadge } from '../../parts/state-badge.tsx'
import { Took } from '../../parts/time.tsx'
import { criticalPath } from './critical-path.ts'
import './graph.css'
import { FANOUT_HEIGHT, layOut, NODE_HEIGHT, NODE_WIDTH } from './lay-out.ts'
import { ShareBar } from './share-bar.tsx'
import { type GraphStep, stateOf } from './use-workflow.ts'

type StepNode = Node<{ step: GraphStep; critical: boolean; down: boolean }, 'step'>

const NODE_TYPES = { step: StepCard }
/** Below the cards, for the buttons that zoom; above them, so that the cards stay in the middle. */
const TOOLS = 32
const NARROW = matchMedia('(max-width: 760px)')

function useNarrow(): boolean {
  return useSyncExternalStore(
    (listener) => {
      NARROW.addEventListener('change', listener)
      return () => NARROW.removeEventListener('change', listener)
    },
    () => NARROW.matches,
  )
}

/**
 * Steps as cards, arrows for what they need. Tab goes from card to card in the order they are written, Enter chooses.
 *
 * Its shape is worked out once for a workflow: states change the cards, never their places.
 */
export function StepGraph({
  steps,
  chosen,
  onChoose,
}: {
  steps: readonly GraphStep[]
  chosen: string | undefined
  onChoose: (step: string) => void
}) {
  const down = useNarrow()
  const shape = JSON.stringify(steps.map(({ step, kind, needs }) => [step, kind, needs]))
  // biome-ignore lint/correctness/useExhaustiveDependencies: the shape says all that decides on places
  const places = useMemo(() => layOut(steps, down), [shape, down])
  const { nodes, edges } = useMemo(
    () => draw(steps, places.places, chosen, down),
    [steps, places, chosen, down],
  )
  const chosenByKey = (changes: NodeChange<StepNode>[]) => {
    const change = changes.find((each) => each.type === 'select' && each.selected)
    if (change?.type === 'select' && change.id !== chosen) onChoose(change.id)
  }
  const height = Math.round(Math.min(560, Math.max(220, places.height + 24 + 2 * TOOLS)))
  return (
    <>
      <div className="graph" style={{ height }}>
        <ReactFlow
          key={`${shape}${down}`}
          nodes={nodes}
          edges={edges}
          nodeTypes={NODE_TYPES}
          onNodeClick={(_, node) => onChoose(node.id)}
          onNodesChange={chosenByKey}
          fitView
          fitViewOptions={{ padding: 0.06, maxZoom: 1, minZoom: down ? 0.75 : 0.45 }}
          minZoom={0.1}
          maxZoom={1.5}
          nodesDraggable={false}
          nodesConnectable={false}
          edgesFocusable={false}
          elementsSelectable
          zoomOnScroll={false}
          preventScrolling={false}
          onlyRenderVisibleElements={steps.length > 100}
          attributionPosition="bottom-right"
          aria-label="Steps of the workflow and their dependencies"
        >
          <Background gap={20} />
          <Controls showInteractive={false} orientation="horizontal" position="bottom-left" />
        </ReactFlow>
      </div>
      <p className="graph-legend" aria-hidden="true">
        <span className="legend-critical">critical path</span>
        {steps.some(({ on }) => on !== 'success') && (
          <span className="legend-other">runs on failure, or always</span>
        )}
      </p>
    </>
  )
}

function draw(
  steps: readonly GraphStep[],
  places: ReturnType<typeof layOut>['places'],
  chosen: string | undefined,
  down: boolean,
): { nodes: StepNode[]; edges: Edge[] } {
  const critical = criticalPath(steps)
  const nodes = steps.map(
    (step): StepNode => ({
      id: step.step,
      type: 'step',
      position: { ...(places.get(step.step) ?? { x: 0, y: 0 }) },
      ...sizeOf(step, down),
      data: { step, critical: critical.includes(step.step), down },
      selected: step.step === chosen,
      ariaRole: 'button',
    }),
  )
  const edges = steps.flatMap((step) =>
    step.needs.map((need): Edge => {
      const on = critical.indexOf(need) >= 0 && critical.indexOf(step.step) === critical.indexOf(need) + 1
      return {
        id: `${need}>${step.step}`,
        source: need,
        target: step.step,
        className: `edge${on ? ' edge-critical' : ''}${step.on === 'success' ? '' : ' edge-other'}`,
        markerEnd: { type: MarkerType.ArrowClosed, color: 'context-stroke' },
        ...(step.on !== 'success' && { label: step.on === 'failure' ? 'on failure' : 'always' }),
      }
    }),
  )
  return { nodes, edges }
}

/** Told beforehand: what is measured on the screen would be forgotten with every change of a state, and arrows with it. */
function sizeOf({ kind }: GraphStep, down: boolean): Partial<StepNode> {
  const width = NODE_WIDTH
  const height = kind === 'fanout' ? FANOUT_HEIGHT : NODE_HEIGHT
  const dot = { width: 1, height: 1 }
  const into = down ? { x: width / 2, y: 0 } : { x: 0, y: height / 2 }
  const out = down ? { x: width / 2, y: height } : { x: width, y: height / 2 }
  return {
    width,
    height,
    measured: { width, height },
    handles: [
      { type: 'target', position: down ? Position.Top : Position.Left, ...into, ...dot },
      { type: 'source', position: down ? Position.Bottom : Position.Right, ...out, ...dot },
    ],
  }
}

function StepCard({ data: { step, critical, down } }: NodeProps<StepNode>) {
  const { job, kind, runs } = step
  const state = stateOf(job)
  return (
    <div className="card" data-state={state} data-kind={kind} data-critical={critical || undefined}>
      <Handle type="target" position={down ? Position.Top : Position.Left} isConnectable={false} />
      <div className="card-line">
        <StateBadge state={state} quiet />
        <span className="card-name">{step.step}</span>
        <span className="card-time">
          {job !== undefined && job.startedAt !== null && (
            <Took startedAt={job.startedAt} finishedAt={job.finishedAt} />
          )}
        </span>
      </div>
      <div className="card-line card-about">
        <span className="card-runs">{kind === 'group' ? 'group' : runs}</span>
        {job !== undefined && job.attempt > 1 && <span>{job.attempt} attempts</span>}
        {(kind === 'workflow' || kind === 'group') && (
          <span className="card-inside">{kind === 'workflow' ? 'workflow' : ''} ⤵</span>
        )}
      </div>
      {kind === 'fanout' && (
        <div className="card-line card-about">
          <ShareBar counts={job?.counts} />
          {job?.counts !== undefined && (
            <span>
              {(job.counts.completed + job.counts.failed + job.counts.cancelled).toLocaleString()} of{' '}
              {job.counts.total.toLocaleString()}
            </span>
          )}
        </div>
      )}
      {step.needs.length > 0 && <span className="hidden-visually">after {step.needs.join(', ')}</span>}
      <Handle type="source" position={down ? Position.Bottom : Position.Right} isConnectable={false} />
    </div>
  )
}
