import {
  Background,
  Controls,
  type Edge,
  Handle,
  MarkerType,
  type Node,
  type NodeProps,
  Position,
  ReactFlow,
} from '@xyflow/react'
import '@xyflow/react/dist/base.css'
import { useMemo, useSyncExternalStore } from 'react'
import { StateBadge } from '../../parts/state-badge.tsx'
import { Duration, Since } from '../../parts/time.tsx'
import { criticalPath } from './critical-path.ts'
import './graph.css'
import { layOut, NODE_WIDTH } from './lay-out.ts'
import { ShareBar } from './share-bar.tsx'
import { type GraphStep, stateOf } from './use-workflow.ts'

type StepNode = Node<{ step: GraphStep; critical: boolean; down: boolean }, 'step'>

const NODE_TYPES = { step: StepCard }
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
  const height = Math.round(Math.min(560, Math.max(220, places.height + 24)))
  return (
    <>
      <div className="graph" style={{ height }}>
        <ReactFlow
          key={`${shape}${down}`}
          nodes={nodes}
          edges={edges}
          nodeTypes={NODE_TYPES}
          onNodeClick={(_, node) => onChoose(node.id)}
          onSelectionChange={({ nodes: [node] }) =>
            node !== undefined && node.id !== chosen && onChoose(node.id)
          }
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
          proOptions={{ hideAttribution: true }}
          aria-label="Steps of the workflow and what they need"
        >
          <Background gap={20} />
          <Controls showInteractive={false} position="bottom-right" />
        </ReactFlow>
      </div>
      <p className="graph-legend" aria-hidden="true">
        <span className="legend-critical">what the whole waited for</span>
        {steps.some(({ on }) => on !== 'success') && (
          <span className="legend-other">on failure, or always</span>
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
      data: { step, critical: critical.includes(step.step), down },
      selected: step.step === chosen,
      ariaLabel: describe(step),
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

function describe({ step, kind, runs, needs, job }: GraphStep): string {
  const what =
    kind === 'fanout' ? `fan-out of ${runs ?? 'groups'}` : kind === 'group' ? 'group' : `${kind} ${runs}`
  const after = needs.length === 0 ? '' : `, after ${needs.join(', ')}`
  return `Step ${step}, ${what}, ${stateOf(job).replace('_', ' ')}${after}`
}

function StepCard({ data: { step, critical, down } }: NodeProps<StepNode>) {
  const { job, kind, runs } = step
  const state = stateOf(job)
  return (
    <div
      className="card"
      data-state={state}
      data-kind={kind}
      data-critical={critical || undefined}
      style={{ width: NODE_WIDTH }}
    >
      <Handle type="target" position={down ? Position.Top : Position.Left} isConnectable={false} />
      <div className="card-line">
        <StateBadge state={state} quiet />
        <span className="card-name">{step.step}</span>
        <span className="card-time">{job !== undefined && <Took job={job} />}</span>
      </div>
      <div className="card-line card-about">
        <span className="card-runs">{kind === 'group' ? 'group' : runs}</span>
        {job !== undefined && job.attempt > 1 && <span>{job.attempt} attempts</span>}
        {kind === 'fanout' && job?.counts !== undefined && (
          <span>
            {(job.counts.completed + job.counts.failed + job.counts.cancelled).toLocaleString()} of{' '}
            {job.counts.total.toLocaleString()}
          </span>
        )}
        {(kind === 'workflow' || kind === 'group') && (
          <span className="card-inside">{kind === 'workflow' ? 'workflow' : ''} ⤵</span>
        )}
      </div>
      {kind === 'fanout' && <ShareBar counts={job?.counts} />}
      <Handle type="source" position={down ? Position.Bottom : Position.Right} isConnectable={false} />
    </div>
  )
}

function Took({ job }: { job: NonNullable<GraphStep['job']> }) {
  const { startedAt, finishedAt } = job
  if (startedAt === null) return null
  if (finishedAt === null) return <Since at={startedAt} />
  return <Duration ms={finishedAt.getTime() - startedAt.getTime()} />
}
