import type { JsonValue } from '../../src/model/json.ts'
import { SeededRandom } from './seeded-random.ts'
import { itemsOf, type Model, type ModelBody, type ModelStep, type ModelStrategy } from './workflow-model.ts'

/**
 * What must come out of a workflow, worked out in the simplest way: each step's ending is a function of
 * the endings of the steps it needs. There is no order, no waiting and no `early` in here.
 */
export interface Outcome {
  readonly state: 'completed' | 'failed' | 'cancelled' | 'skipped'
  readonly result: JsonValue
  /** Endings of the leaf jobs below, this one included when it is one. Skipped ones are left out. */
  readonly leaves: readonly ('completed' | 'failed' | 'cancelled')[]
  /** Of a workflow or group. */
  readonly steps?: Readonly<Record<string, Outcome>>
  /** Of a fan-out. */
  readonly children?: readonly Outcome[]
  /** Of a leaf job that ran. */
  readonly input?: JsonValue
}

/** How the leaf job at an address ends. */
export type LeafEnding = (address: string) => 'completed' | 'failed' | 'cancelled'

/** Leaves that end as a number draws it: the same leaf in the same way, whoever runs it and in whatever order. */
export function drawnEndings(choice: number): LeafEnding {
  return (address) => {
    let hash = choice
    for (const char of address) hash = (Math.imul(hash, 31) + char.charCodeAt(0)) | 0
    const drawn = new SeededRandom(hash).next()
    return drawn < 0.7 ? 'completed' : drawn < 0.95 ? 'failed' : 'cancelled'
  }
}

/** What a run and the oracle must agree on. */
export interface Told {
  readonly state: string
  readonly result: JsonValue
  readonly input?: JsonValue
  readonly below?: Readonly<Record<string, Told>>
}

export function tellOutcome({ state, result, steps, children, input }: Outcome): Told {
  const below = Object.entries(steps ?? children ?? {}).map(([name, child]) => [name, tellOutcome(child)])
  return {
    state,
    result,
    ...(input === undefined ? {} : { input }),
    ...(steps === undefined && children === undefined ? {} : { below: Object.fromEntries(below) }),
  }
}

interface Scope {
  readonly n: number
  readonly item?: JsonValue
  readonly index?: number
  readonly find: (name: string) => Outcome
}

const SKIPPED: Outcome = { state: 'skipped', result: null, leaves: [] }
const NOT_STARTED: Outcome = { state: 'failed', result: null, leaves: ['failed'] }
const ALL: ModelStrategy = { rule: 'all', n: 0, of: 'children', early: false }

export function interpret(model: Model, workflow: string, n: number, ending: LeafEnding): Outcome {
  const scope: Scope = {
    n,
    find: (name) => {
      throw new Error(`the model reads ${name}, which no body around it has`)
    },
  }
  return new Oracle(model, ending).body(model[workflow]!, scope, workflow, ALL)
}

class Oracle {
  readonly #model: Model
  readonly #ending: LeafEnding

  constructor(model: Model, ending: LeafEnding) {
    this.#model = model
    this.#ending = ending
  }

  body({ steps, tellsStatus }: ModelBody, outside: Scope, address: string, strategy: ModelStrategy): Outcome {
    const ends = new Map<string, Outcome>()
    const byName = new Map(steps.map((step) => [step.name, step]))
    const endOf = (name: string): Outcome => {
      const step = byName.get(name)
      if (step === undefined) return outside.find(name)
      let end = ends.get(name)
      if (end === undefined) {
        end = this.#step(step, { ...outside, find: endOf }, `${address}/${name}`, step.needs.map(endOf))
        ends.set(name, end)
      }
      return end
    }
    const all = steps.map((step) => ({ step, end: endOf(step.name) }))
    const isHandled = (failed: ModelStep) =>
      all.some(
        ({ step, end }) =>
          step.on !== 'success' && step.needs.includes(failed.name) && end.state === 'completed',
      )
    const counted = all
      .filter(({ step, end }) => !(isFailed(end) && isHandled(step)))
      .map(({ end }) => end.state)
    const leaves = all.flatMap(({ end }) => end.leaves)
    const state = verdict(strategy, strategy.of === 'leaves' ? leaves : counted)
    const results = all.map(({ step, end }) => [
      step.name,
      tellsStatus ? end.state : end.state === 'completed' ? end.result : null,
    ])
    return {
      state,
      result: state === 'completed' ? (Object.fromEntries(results) as JsonValue) : null,
      leaves,
      steps: Object.fromEntries(all.map(({ step, end }) => [step.name, end])),
    }
  }

  #step(step: ModelStep, scope: Scope, address: string, needs: readonly Outcome[]): Outcome {
    const isTaken = {
      success: needs.every(({ state }) => state === 'completed'),
      failure: needs.some(isFailed),
      always: true,
    }[step.on]
    if (!isTaken || !holds(step.when, scope)) return SKIPPED
    if (step.each === undefined) return this.#run(step, scope, address, step.strategy ?? ALL)
    if (step.each.items < 0) return NOT_STARTED
    const children = inChunks(step.each).map((item, index) =>
      this.#run(step, { ...scope, item, index }, `${address}[${index}]`, ALL),
    )
    const leaves = children.flatMap((child) => child.leaves)
    const strategy = step.strategy ?? ALL
    return {
      state: verdict(strategy, strategy.of === 'leaves' ? leaves : children.map((child) => child.state)),
      result: children.map((child) => (child.state === 'completed' ? child.result : null)),
      leaves,
      children,
    }
  }

  #run(step: ModelStep, scope: Scope, address: string, strategy: ModelStrategy): Outcome {
    const { run } = step
    if (run.kind === 'group') return this.body(run.body, scope, address, strategy)
    if (run.kind === 'workflow') {
      const body = this.#model[run.workflow]!
      return this.body(body, { ...scope, n: run.countsDown ? scope.n - 1 : scope.n }, address, ALL)
    }
    if (step.isBroken) return NOT_STARTED
    const state = this.#ending(address)
    const result = state === 'completed' ? address : null
    return { state, result, leaves: [state], input: inputOf(step, scope) }
  }
}

/** The input of a leaf: what `workflow-model` writes into its `with`. */
function inputOf({ each, tells }: ModelStep, { n, item = null, index = 0, find }: Scope): JsonValue {
  return {
    n,
    told: tells.map((name) => {
      const { state, result } = find(name)
      return { status: state, result: result }
    }),
    ...(each === undefined ? {} : { item, at: index }),
    ...(each?.size === undefined ? {} : { items: item, index }),
  }
}

function holds(when: ModelStep['when'], { n, find }: Scope): boolean {
  if (when === undefined) return true
  if (when.kind === 'positive') return n > 0
  return when.kind === 'constant' ? when.value : find(when.step).state === when.is
}

function inChunks({ items, size }: { items: number; size?: number }): JsonValue[] {
  const left = itemsOf(items)
  if (size === undefined) return left
  const chunks: JsonValue[] = []
  while (left.length > 0) chunks.push(left.splice(0, size))
  return chunks
}

function isFailed({ state }: Outcome): boolean {
  return state === 'failed' || state === 'cancelled'
}

function verdict({ rule, n }: ModelStrategy, states: readonly Outcome['state'][]): 'completed' | 'failed' {
  const counted = states.filter((state) => state !== 'skipped').length
  const completed = states.filter((state) => state === 'completed').length
  const succeeds = {
    all: completed === counted,
    any: completed > 0,
    atLeast: completed >= n,
    percent: completed * 100 >= counted * n,
    ignore: true,
  }[rule]
  return succeeds ? 'completed' : 'failed'
}
