import { graphlib, layout } from '@dagrejs/dagre'
import type { GraphStep } from './use-workflow.ts'

export const NODE_WIDTH = 208
export const NODE_HEIGHT = 62
export const FANOUT_HEIGHT = 88

export interface Place {
  readonly x: number
  readonly y: number
}

export interface Layout {
  readonly places: ReadonlyMap<string, Place>
  readonly width: number
  readonly height: number
}

/** Where each step is drawn: what needs another comes after it. From left to right, or downwards on a narrow screen. */
export function layOut(steps: readonly Pick<GraphStep, 'step' | 'kind' | 'needs'>[], down: boolean): Layout {
  const graph = new graphlib.Graph()
  graph.setGraph({
    rankdir: down ? 'TB' : 'LR',
    nodesep: down ? 16 : 20,
    ranksep: down ? 36 : 56,
    marginx: 12,
    marginy: 12,
  })
  graph.setDefaultEdgeLabel(() => ({}))
  for (const { step, kind } of steps)
    graph.setNode(step, { width: NODE_WIDTH, height: kind === 'fanout' ? FANOUT_HEIGHT : NODE_HEIGHT })
  for (const { step, needs } of steps) for (const need of needs) graph.setEdge(need, step)
  layout(graph)
  const places = new Map<string, Place>()
  for (const { step } of steps) {
    const { x = 0, y = 0, width = 0, height = 0 } = graph.node(step) as Partial<Box>
    places.set(step, { x: x - width / 2, y: y - height / 2 })
  }
  const { width = 0, height = 0 } = graph.graph() as Partial<Box>
  return { places, width, height }
}

interface Box {
  readonly x: number
  readonly y: number
  readonly width: number
  readonly height: number
}
