import { isDeepStrictEqual } from 'node:util'
import type { JsonValue } from '../../src/model/json.ts'
import { advance, type Child, type Children, type Effect } from '../../src/workflow/advance/advance.ts'
import { reads } from '../../src/workflow/advance/reads.ts'
import { renderChild } from '../../src/workflow/advance/render-step.ts'
import { type Endings, settleFanout } from '../../src/workflow/advance/strategy.ts'
import {
  bodyAt,
  type Graph,
  pathBelow,
  type Step,
  stepAt,
  stepsByName,
  strategyAt,
} from '../../src/workflow/graph.ts'
import type { SeededRandom } from './seeded-random.ts'
import type { LeafEnding } from './workflow-oracle.ts'

/** A job of the tree, as the database would keep it. */
export interface RunNode {
  readonly kind: 'workflow' | 'group' | 'fanout' | 'leaf' | 'unstarted'
  readonly path: string
  readonly address: string
  readonly input: JsonValue
  readonly parent: RunNode | undefined
  readonly children: Map<string, RunNode>
  state: Child['state']
  result: JsonValue
  error?: string
}

/**
 * Runs a graph in memory: does with effects what the database does, ends leaves and wakes composites in
 * a random order, now and then once too often, and gives `advance` only what `reads` asked for.
 *
 * Throws as soon as a step starts twice, before what it needs or on the wrong path, or a composite
 * settles twice or too soon.
 */
export class WorkflowRun {
  readonly root: RunNode
  readonly #graph: Graph
  readonly #random: SeededRandom
  readonly #ending: LeafEnding
  readonly #active = new Set<RunNode>()
  readonly #awake = new Set<RunNode>()

  constructor(graph: Graph, input: JsonValue, random: SeededRandom, ending: LeafEnding) {
    this.#graph = graph
    this.#random = random
    this.#ending = ending
    this.root = this.#create('workflow', graph.main, graph.main, input, undefined, graph.main)
  }

  runToEnd(): RunNode {
    while (this.root.state === 'active') {
      const wakesFirst = this.#awake.size > 0 && (this.#active.size === 0 || this.#random.chance(0.7))
      const node = this.#random.pick([...(wakesFirst ? this.#awake : this.#active)])
      if (node === undefined)
        throw new Error(`${this.root.path} is stuck: nothing is active, nobody is awake`)
      if (wakesFirst) this.#wake(node)
      else this.#endLeaf(node)
    }
    const left = [...this.#active].map(({ address }) => address)
    if (left.length > 0) throw new Error(`the workflow ended while ${left.join(', ')} ran`)
    return this.root
  }

  #endLeaf(leaf: RunNode): void {
    const state = this.#ending(leaf.address)
    this.#end(
      leaf,
      state,
      state === 'completed' ? leaf.address : null,
      state === 'completed' ? undefined : 'ended so',
    )
  }

  #end(node: RunNode, state: Child['state'], result: JsonValue, error?: string): void {
    if (node.state !== 'active') throw new Error(`${node.address} ended twice: ${node.state}, then ${state}`)
    node.state = state
    node.result = result
    if (error !== undefined) node.error = error
    this.#active.delete(node)
    this.#awake.delete(node)
    for (const child of node.children.values()) this.#cancel(child)
    if (node.parent !== undefined) this.#awake.add(node.parent)
  }

  #cancel(node: RunNode): void {
    if (node.state !== 'active') return
    node.state = 'cancelled'
    this.#active.delete(node)
    this.#awake.delete(node)
    for (const child of node.children.values()) this.#cancel(child)
  }

  #wake(node: RunNode): void {
    // A wake-up too many must be harmless.
    if (this.#random.chance(0.8)) this.#awake.delete(node)
    if (node.kind === 'fanout') this.#settleFanout(node)
    else this.#advance(node)
  }

  #advance(node: RunNode): void {
    const place = { path: node.path, input: node.input, leaves: leavesBelow(node) }
    const children = this.#load(node)
    const effects = advance(this.#graph, place, children)
    if (!isDeepStrictEqual(effects, advance(this.#graph, place, children))) {
      throw new Error(`${node.address} was advanced twice from one state, with different effects`)
    }
    for (const effect of effects) this.#apply(node, effect)
  }

  #load(node: RunNode): Children {
    const states = new Map([...node.children].map(([name, { state }]) => [name, { state } as Child]))
    const place = { path: node.path, input: node.input }
    const { result, results } = reads(this.#graph, place, states)
    return new Map(
      [...node.children].map(([name, child]) => [
        name,
        {
          state: child.state,
          ...(result.includes(name) ? { result: child.result } : {}),
          ...(results.includes(name) && child.kind === 'fanout' ? { results: resultsOf(child) } : {}),
          ...(child.error === undefined ? {} : { error: child.error }),
        },
      ]),
    )
  }

  #apply(node: RunNode, effect: Effect): void {
    if (effect.kind === 'settle') {
      this.#checkSettle(node)
      if (effect.state === 'completed') this.#end(node, 'completed', effect.result)
      else this.#end(node, 'failed', null, effect.error)
      return
    }
    const step = stepsByName(bodyAt(this.#graph, node.path)).get(effect.step)!
    this.#checkPath(node, step, effect)
    const address = `${node.address}/${step.name}`
    const path = pathBelow(node.path, step.name)
    switch (effect.kind) {
      case 'skip':
      case 'fail': {
        const child = this.#create('unstarted', path, address, null, node, step.name)
        child.state = effect.kind === 'skip' ? 'skipped' : 'failed'
        if (effect.kind === 'fail') child.error = effect.error
        break
      }
      case 'start':
        this.#start(step, address, path, effect.input, node, step.name)
        break
      case 'fanOut':
        this.#fanOut(step, address, path, effect, node)
        break
      default:
        effect satisfies never
    }
  }

  #fanOut(
    step: Step,
    address: string,
    path: string,
    effect: Effect & { kind: 'fanOut' },
    parent: RunNode,
  ): void {
    const fanOut = this.#create('fanout', path, address, effect.scope, parent, step.name)
    this.#awake.add(fanOut)
    // The scope is stored as JSON and read back.
    const scope = JSON.parse(JSON.stringify(effect.scope)) as JsonValue
    effect.items.forEach((item, index) => {
      const child = renderChild(step, scope, item, index)
      const at = `${address}[${index}]`
      if ('input' in child) this.#start(step, at, path, child.input, fanOut, String(index))
      else {
        const failed = this.#create('unstarted', path, at, null, fanOut, String(index))
        failed.state = 'failed'
        failed.error = child.error
      }
    })
  }

  #start(step: Step, address: string, path: string, input: JsonValue, parent: RunNode, key: string): void {
    const stored = JSON.parse(JSON.stringify(input)) as JsonValue
    const { run } = step
    if (run.kind === 'task') this.#create('leaf', path, address, stored, parent, key)
    else if (run.kind === 'group') this.#create('group', path, address, stored, parent, key)
    else this.#create('workflow', run.workflow, address, stored, parent, key)
  }

  #create(
    kind: RunNode['kind'],
    path: string,
    address: string,
    input: JsonValue,
    parent: RunNode | undefined,
    key: string,
  ): RunNode {
    if (parent?.children.has(key)) throw new Error(`${address} was started twice`)
    const node: RunNode = {
      kind,
      path,
      address,
      input,
      parent,
      children: new Map(),
      state: 'active',
      result: null,
    }
    parent?.children.set(key, node)
    if (kind === 'leaf') this.#active.add(node)
    else if (kind !== 'unstarted') this.#awake.add(node)
    return node
  }

  #settleFanout(node: RunNode): void {
    const step = stepAt(this.#graph, node.path)
    const children = [...node.children.values()]
    const isOpen = children.some(({ state }) => state === 'active')
    const tally =
      step.strategy.of === 'leaves'
        ? { ...leavesBelow(node), ...(isOpen ? {} : { total: sum(leavesBelow(node)) }) }
        : { ...endings(children), total: children.length }
    const verdict = settleFanout(step, tally)
    if (verdict === undefined) return
    if (isOpen && !step.strategy.early) throw new Error(`${node.address} settled while children were active`)
    this.#end(node, verdict.state, null, verdict.state === 'failed' ? verdict.error : undefined)
  }

  #checkSettle(node: RunNode): void {
    const { early } = strategyAt(this.#graph, node.path)
    const body = bodyAt(this.#graph, node.path)
    const open = body.steps.filter(({ name }) => (node.children.get(name)?.state ?? 'active') === 'active')
    if (open.length > 0 && !early) {
      throw new Error(`${node.address} settled before ${open.map(({ name }) => name).join(', ')} ended`)
    }
  }

  #checkPath(node: RunNode, step: Step, effect: Effect): void {
    if (effect.kind === 'skip') return
    const needs = step.needs.map((name) => node.children.get(name)?.state ?? 'waiting')
    const matches = {
      success: needs.every((state) => state === 'completed'),
      failure: needs.some((state) => state === 'failed' || state === 'cancelled'),
      always: true,
    }[step.on]
    if (!matches || needs.includes('waiting') || needs.includes('active')) {
      throw new Error(
        `${node.address}/${step.name} was taken on ${step.on} with needs that are ${needs.join(', ')}`,
      )
    }
  }
}

/** Of a fan-out: the results of its children. */
function resultsOf({ children }: RunNode): JsonValue[] {
  return [...children.values()].map((child) => resultOf(child))
}

export function resultOf(node: RunNode): JsonValue {
  if (node.kind === 'fanout') return resultsOf(node)
  return node.state === 'completed' ? node.result : null
}

function endings(nodes: readonly RunNode[]): Endings {
  const count = (wanted: Child['state']) => nodes.filter(({ state }) => state === wanted).length
  return {
    completed: count('completed'),
    failed: count('failed'),
    cancelled: count('cancelled'),
    skipped: count('skipped'),
  }
}

function leavesBelow(node: RunNode): Endings {
  const leaves: RunNode[] = []
  const collect = (below: RunNode) => {
    if (below.kind === 'leaf' || below.kind === 'unstarted') leaves.push(below)
    for (const child of below.children.values()) collect(child)
  }
  for (const child of node.children.values()) collect(child)
  return endings(leaves)
}

function sum({ completed, failed, cancelled, skipped }: Endings): number {
  return completed + failed + cancelled + skipped
}
