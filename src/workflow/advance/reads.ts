import { bodyAt, type Graph, strategyAt } from '../graph.ts'
import { type BodyPlan, planOf, type Read, type StepPlan } from '../plan.ts'
import { type Children, type CompositeNode, hasEnded } from './advance.ts'

/** Steps whose results `advance` may read if it is called now. */
export interface NeededResults {
  /** Plain steps: load `result`. */
  readonly result: readonly string[]
  /** Fan-outs: load `results`, the list of their children's results. */
  readonly results: readonly string[]
}

/**
 * Which results must be loaded before a workflow or group is advanced.
 *
 * Looks at states only. It may name more than the call reads in the end, because a step that is skipped
 * lets the ones after it move in the same call, but never less.
 */
export function reads(graph: Graph, node: CompositeNode, children: Children): NeededResults {
  const plan = planOf(bodyAt(graph, node.path))
  const stateOf = ({ step }: StepPlan) => children.get(step.name)?.state ?? 'waiting'
  const isActive = plan.steps.map((step) => stateOf(step) === 'active')
  const mayStart = (step: StepPlan) =>
    stateOf(step) === 'waiting' && step.needs.every((need) => !isActive[need])
  const maySettle = strategyAt(graph, node.path).early || !isActive.includes(true)
  const found = [
    ...plan.steps.filter(mayStart).flatMap(({ templates }) => templates.reads),
    ...(maySettle ? readsOfResult(plan) : []),
  ]

  const needed = { result: new Set<string>(), results: new Set<string>() }
  for (const [root, name, field] of found) {
    const position = root === 'steps' && isResult(field) ? plan.positions.get(name ?? '') : undefined
    if (position === undefined) continue
    const step = plan.steps[position]!
    const state = stateOf(step)
    if (step.step.each !== undefined) {
      // A failed fan-out has results too: those of the children that completed.
      if (hasEnded(state) && state !== 'skipped') needed.results.add(step.step.name)
    } else if (state === 'completed') needed.result.add(step.step.name)
  }
  return { result: [...needed.result], results: [...needed.results] }
}

function readsOfResult({ output, steps }: BodyPlan): readonly Read[] {
  return output?.reads ?? steps.map(({ step }) => ['steps', step.name, 'result'])
}

function isResult(field: string | undefined): boolean {
  return field === 'result' || field === 'results'
}
