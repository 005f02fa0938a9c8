import type { JsonValue } from '../../model/json.ts'
import type { Scope } from '../expression/expression.ts'
import { renderTemplate } from '../expression/template.ts'
import { bodyAt, type Graph, strategyAt } from '../graph.ts'
import { type BodyPlan, planOf, type Read, type StepPlan } from '../plan.ts'
import { asScope, pick } from '../scope.ts'
import { renderingError, renderStep, type StepEffect, TooLarge } from './render-step.ts'
import { type Endings, explainFailure, type Standing, standingOf, strategyOutcome } from './strategy.ts'

/** A workflow or group that is to be advanced. */
export interface CompositeNode {
  /** Its place in the graph: `pipeline` for a workflow, `pipeline/publish` for a group in it. */
  readonly path: string
  /** Of a workflow its input, of a group the scope it was started with. */
  readonly input: JsonValue
  /** How leaf jobs below it have ended, counted as for `settleFanout`. Needed where the strategy counts leaves. */
  readonly leaves?: Endings
}

/** `waiting` and being absent are the same: not started, and nothing decided. */
export type ChildState = 'waiting' | 'active' | 'completed' | 'failed' | 'cancelled' | 'skipped'

export interface Child {
  readonly state: ChildState
  readonly result?: JsonValue
  /** Of a fan-out: the results of its children in order. */
  readonly results?: readonly JsonValue[]
  /** Of what was not loaded because of its size: how many bytes of JSON that is. */
  readonly tooLarge?: number
  readonly error?: string
}

/** The direct children of a composite, by the name of their step. */
export type Children = ReadonlyMap<string, Child>

export type Effect =
  | StepEffect
  /** The composite ends. Children that are still active or waiting are to be cancelled. */
  | { readonly kind: 'settle'; readonly state: 'completed'; readonly result: JsonValue }
  | { readonly kind: 'settle'; readonly state: 'failed'; readonly error: string }

/**
 * What is to be done now for a workflow or group, given how its children stand.
 *
 * Works from the present state alone: calling it again after its effects were applied, or once too often,
 * starts nothing twice. Skips and failures it decides count at once, so that one call goes as far as it
 * can. The cost grows with the number of steps in the body, whatever is below them.
 *
 * Effects come in this order: skips, failures and starts, each after what they follow from; then `settle`,
 * alone or after skips and failures, never beside a start.
 *
 * @param children Must hold the results that `reads` names. Others may be left out.
 */
export function advance(graph: Graph, node: CompositeNode, children: Children): Effect[] {
  const run = new Advance(graph, node, children)
  const effects = run.takeSteps()
  const settled = run.settle()
  if (settled === undefined) return effects
  return [...effects.filter(({ kind }) => kind === 'skip' || kind === 'fail'), settled]
}

class Advance {
  readonly #plan: BodyPlan
  readonly #node: CompositeNode
  readonly #graph: Graph
  readonly #children: Children
  readonly #outside: Scope
  /** By position. What this call decides is entered here. */
  readonly #states: ChildState[]
  /** Why steps failed in this call. */
  readonly #errors = new Map<number, string>()

  constructor(graph: Graph, node: CompositeNode, children: Children) {
    this.#graph = graph
    this.#node = node
    this.#children = children
    this.#plan = planOf(bodyAt(graph, node.path))
    this.#outside = outsideOf(node)
    this.#states = this.#plan.steps.map(({ step }) => children.get(step.name)?.state ?? 'waiting')
  }

  /** Decides every step that can be decided. */
  takeSteps(): Effect[] {
    const effects: Effect[] = []
    for (const plan of this.#plan.order) {
      if (this.#states[plan.position] !== 'waiting') continue
      const effect = this.#decide(plan)
      if (effect === undefined) continue
      effects.push(effect)
      this.#enter(plan.position, effect)
    }
    return effects
  }

  #decide(plan: StepPlan): Effect | undefined {
    const path = choosePath(plan, this.#plan, this.#states)
    if (path === 'wait') return undefined
    if (path !== 'take') return { kind: 'skip', step: plan.step.name, why: path.skip }
    return renderStep(plan.step, (reads) => this.#scope(reads))
  }

  #enter(position: number, effect: Effect): void {
    if (effect.kind === 'skip') this.#states[position] = 'skipped'
    else if (effect.kind === 'fail') {
      this.#states[position] = 'failed'
      this.#errors.set(position, effect.error)
    } else this.#states[position] = 'active'
  }

  /** The end of the composite, when its strategy has a verdict. */
  settle(): Effect | undefined {
    const strategy = strategyAt(this.#graph, this.#node.path)
    const ofLeaves = strategy.of === 'leaves'
    const standing = ofLeaves ? this.#leaves() : this.#steps()
    const state = strategyOutcome(strategy, standing)
    if (state === 'completed') return this.#complete()
    if (state === undefined) return undefined
    if (strategy.rule === 'all' && !ofLeaves) return { kind: 'settle', state, error: this.#failures() }
    return { kind: 'settle', state, error: explainFailure(strategy, standing, ofLeaves ? 'leaves' : 'steps') }
  }

  #complete(): Effect {
    const { output } = this.#plan
    try {
      if (output === undefined) return { kind: 'settle', state: 'completed', result: this.#resultsByName() }
      const result = renderTemplate(output.compiled, this.#scope(output.reads))
      return { kind: 'settle', state: 'completed', result }
    } catch (error) {
      return { kind: 'settle', state: 'failed', error: renderingError(error) }
    }
  }

  #steps(): Standing {
    const standing = { completed: 0, failed: 0, inDoubt: 0, open: 0 }
    const lost = findLost(this.#plan, this.#states)
    for (const plan of this.#plan.steps) {
      const state = this.#states[plan.position]!
      if (state === 'completed') standing.completed += 1
      else if (!hasEnded(state)) standing.open += lost[plan.position] ? 0 : 1
      else if (isFailure(state)) {
        const fate = this.#handling(plan)
        if (fate !== 'handled') standing[fate === 'unhandled' ? 'failed' : 'inDoubt'] += 1
      }
    }
    return standing
  }

  #handling({ handlers }: StepPlan): 'handled' | 'open' | 'unhandled' {
    let fate: 'open' | 'unhandled' = 'unhandled'
    for (const handler of handlers) {
      const state = this.#states[handler]!
      if (state === 'completed') return 'handled'
      if (!hasEnded(state)) fate = 'open'
    }
    return fate
  }

  /** What failed in this call has no job yet that could have been counted. */
  #leaves(): Standing {
    const ended = this.#node.leaves ?? { completed: 0, failed: 0, cancelled: 0, skipped: 0 }
    const failed = ended.failed + this.#errors.size
    const isOpen = this.#states.some((state) => !hasEnded(state))
    const total = ended.completed + failed + ended.cancelled + ended.skipped
    return standingOf({ ...ended, failed, ...(isOpen ? {} : { total }) })
  }

  #failures(): string {
    const failed = this.#plan.steps.filter(
      (plan) => isFailure(this.#states[plan.position]!) && this.#handling(plan) === 'unhandled',
    )
    const [first, ...others] = failed.map(({ step }) => step.name)
    if (first === undefined) return 'no step has failed'
    const more = others.length > 3 ? [...others.slice(0, 3), `${others.length - 3} more`] : others
    const also = more.length === 0 ? '' : `; also failed: ${more.join(', ')}`
    const position = this.#plan.positions.get(first)!
    const verb = this.#states[position] === 'cancelled' ? 'was cancelled' : 'failed'
    const error = this.#errors.get(position) ?? this.#children.get(first)?.error
    return `step ${first} ${verb}${error === undefined ? '' : `: ${error}`}${also}`
  }

  #resultsByName(): JsonValue {
    return Object.fromEntries(
      this.#plan.steps.map(({ step, position }) => [
        step.name,
        this.#states[position] === 'completed' ? this.#field(position, 'result') : null,
      ]),
    )
  }

  #scope(reads: readonly Read[]): Scope {
    return pick(
      reads,
      (step, field) => {
        const position = this.#plan.positions.get(step)
        return position === undefined ? undefined : this.#field(position, field)
      },
      this.#outside,
    )
  }

  #field(position: number, field: string): JsonValue {
    const { step } = this.#plan.steps[position]!
    const child = this.#children.get(step.name)
    switch (field) {
      case 'status': {
        const state = this.#states[position]!
        // Read before its end only by the output of a composite that ends early and cancels it.
        return hasEnded(state) ? state : 'cancelled'
      }
      case 'error':
        return this.#errors.get(position) ?? child?.error ?? null
      case 'result':
      case 'results':
        if (child?.tooLarge !== undefined) throw new TooLarge(step.name, field, child.tooLarge)
        return (step.each === undefined ? child?.result : child?.results) ?? null
      default:
        return null
    }
  }
}

/** Of a workflow its input; of a group the scope it was started with. */
function outsideOf({ path, input }: CompositeNode): Scope {
  return path.includes('/') ? asScope(input) : { input }
}

/**
 * Whether the endings of the needed steps lead to a step. Nothing is decided before all of them ended, even
 * where one of them leaves no choice: whoever needs this step may rely on everything before it having ended.
 */
function choosePath(
  { step, needs }: StepPlan,
  { steps }: BodyPlan,
  states: readonly ChildState[],
): 'take' | 'wait' | { skip: string } {
  if (needs.some((need) => !hasEnded(states[need]!))) return 'wait'
  const nameOf = (position: number) => steps[position]!.step.name
  if (step.on === 'always') return 'take'
  if (step.on === 'failure') {
    if (needs.some((need) => isFailure(states[need]!))) return 'take'
    return { skip: `no failure in ${needs.map(nameOf).join(', ')}` }
  }
  const broken = needs.find((need) => states[need] !== 'completed')
  return broken === undefined ? 'take' : { skip: `${nameOf(broken)} ${describeEnd(states[broken]!)}` }
}

/**
 * Waiting steps that are sure to be skipped, by position. They wait for other needs to end, but an `early`
 * verdict need not wait for them.
 */
function findLost({ order }: BodyPlan, states: readonly ChildState[]): boolean[] {
  const lost: boolean[] = []
  for (const { step, position, needs } of order) {
    if (states[position] !== 'waiting') continue
    if (step.on === 'success') {
      lost[position] = needs.some(
        (need) => lost[need] || (hasEnded(states[need]!) && states[need] !== 'completed'),
      )
    } else if (step.on === 'failure') {
      lost[position] = needs.every(
        (need) => lost[need] || states[need] === 'completed' || states[need] === 'skipped',
      )
    }
  }
  return lost
}

function describeEnd(state: ChildState): string {
  return state === 'failed' ? 'failed' : `was ${state}`
}

export function hasEnded(state: ChildState): boolean {
  return state !== 'waiting' && state !== 'active'
}

/** A composite is only advanced while it was not cancelled itself, so a cancelled child is a failure. */
export function isFailure(state: ChildState): boolean {
  return state === 'failed' || state === 'cancelled'
}
