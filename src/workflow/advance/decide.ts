import type {
  Advance,
  FirstStep,
  LeafPolicy,
  NewChild,
  NewChunk,
  TakenComposite,
} from '../../model/composite.ts'
import { isFinal, type JobState } from '../../model/job.ts'
import type { JsonValue } from '../../model/json.ts'
import { MAX_JSON_BYTES } from '../../model/limits.ts'
import { asStored } from '../../model/stored.ts'
import type { Effort } from '../expression/bounds.ts'
import { bodyAt, type Graph, pathBelow, type Step, stepAt, stepsByName, strategyAt } from '../graph.ts'
import { advance, type Child, type ChildState, type Effect } from './advance.ts'
import { renderChild } from './render-step.ts'
import { type Endings, settleFanout } from './strategy.ts'

/** Items that become children in one transaction: a few milliseconds of work. */
const CHUNK_ITEMS = 1000
const CHUNK_CHARACTERS = 4 * 1024 * 1024
/**
 * What rendering them may take; the rest of the items waits for the next transaction. A step is 20 to 60 ns: whoever renders
 * has other things to do, and loses the composite to another process after 5 s.
 */
const CHUNK_STEPS = 5_000_000
const CHUNK_BYTES = 16 * 1024 * 1024

/**
 * First steps that are made with the children of one decision, at most, and how many levels of them. What they take grows faster than their number: 500 children
 * with 50 first steps each took 2.3 s.
 */
const MAX_FIRST_STEPS = 200
const MAX_FIRST_LEVELS = 8
/** A workflow or group with a larger input is made without its first steps. */
const MAX_FIRST_CHARACTERS = 16 * 1024

/** What was loaded of children besides their states, by their places. */
export interface Outcome {
  readonly result: JsonValue
  /** Why the result was not loaded: so many bytes are too many. */
  readonly tooLarge: number | null
  readonly error: string | null
}

export interface Decision {
  readonly advance: Advance
  readonly children: readonly NewChild[]
  readonly chunks: readonly NewChunk[]
}

/**
 * What comes next for a composite that was woken.
 *
 * @param outcomes Of the children, at least those that `reads` names and those that failed.
 * @param leaves How the leaf jobs below it have ended, where its strategy counts them.
 */
export function decide(
  graph: Graph,
  composite: TakenComposite,
  outcomes: ReadonlyMap<number, Outcome>,
  leaves?: Endings,
): Decision {
  if (composite.state !== 'running') return nothing(composite)
  if (composite.closing !== null) return decideClosing(composite, composite.closing)
  if (composite.timedOut) {
    return nothing(composite, { close: { state: 'failed', error: 'timeout: it did not end in time' } })
  }
  return composite.kind === 'fanout'
    ? decideFanout(graph, composite, leaves)
    : decideSteps(graph, composite, outcomes, leaves)
}

function decideClosing(composite: TakenComposite, state: JobState): Decision {
  const { closed, total, completed, failed, cancelled, children, closingError } = composite
  const ended =
    children === null
      ? completed + failed + cancelled >= (total ?? 0)
      : children.every(([, child]) => isFinal(child))
  if (!closed || !ended) return nothing(composite)
  return nothing(composite, { settle: { state, error: closingError } })
}

function decideFanout(graph: Graph, composite: TakenComposite, leaves: Endings | undefined): Decision {
  const step = stepAt(graph, composite.node)
  if (composite.chunk !== null) return makeChildren(graph, composite, step, composite.chunk)
  const { completed, failed, cancelled } = composite
  const isOpen = completed + failed + cancelled < (composite.total ?? 0)
  const total = composite.total ?? 0
  const ended = leaves ?? { completed, failed, cancelled, skipped: 0 }
  const tally =
    leaves === undefined
      ? { ...ended, total }
      : isOpen
        ? ended
        : { ...ended, total: leaves.completed + leaves.failed + leaves.cancelled + leaves.skipped }
  const verdict = settleFanout(step, tally)
  if (verdict === undefined) return nothing(composite)
  return nothing(composite, { settle: verdict, ...(isOpen ? { close: { state: verdict.state } } : {}) })
}

function makeChildren(graph: Graph, composite: TakenComposite, step: Step, first: number): Decision {
  const items = composite.chunkItems ?? []
  const effort = { steps: 0, bytes: 0 }
  // Every child of a group gets the whole scope.
  const scopeBytes = step.run.kind === 'group' ? JSON.stringify(composite.input).length : 0
  const target = childTarget(graph, step, composite.node)
  const children: NewChild[] = []
  for (const item of items) {
    if (effort.steps > CHUNK_STEPS || effort.bytes > CHUNK_BYTES) break
    children.push(makeChild(composite, step, target, first + children.length, item, effort))
    effort.bytes += scopeBytes
  }
  const rest = items.slice(children.length)
  const chunk = { chunk: first, again: true, ...(rest.length > 0 ? { made: children.length, rest } : {}) }
  return { advance: { ...entry(composite), ...chunk }, children, chunks: [] }
}

function makeChild(
  composite: TakenComposite,
  step: Step,
  target: ChildTarget,
  idx: number,
  item: JsonValue,
  effort: Effort,
): NewChild {
  const base = { parent: composite.id, idx, step: step.name, ...target }
  const rendered = renderChild(step, composite.input, item, idx, effort)
  if ('error' in rendered) return { ...base, state: 'failed', error: rendered.error }
  const state = composite.window === null ? 'ready' : 'waiting'
  return { ...base, ...limitsOf(step), input: rendered.input, state }
}

function decideSteps(
  graph: Graph,
  composite: TakenComposite,
  outcomes: ReadonlyMap<number, Outcome>,
  leaves: Endings | undefined,
): Decision {
  const body = bodyAt(graph, composite.node)
  const standing = childrenOf(graph, composite, outcomes)
  const node = {
    path: composite.node,
    input: composite.input,
    ...(leaves === undefined ? {} : { leaves }),
  }
  const children: NewChild[] = []
  const chunks: NewChunk[] = []
  let more: Partial<Advance> = {}
  const room = { steps: MAX_FIRST_STEPS }
  for (const effect of advance(graph, node, standing)) {
    if (effect.kind === 'settle') {
      const isOpen = [...standing.values()].some(({ state }) => state === 'active')
      more = { settle: settled(effect), ...(isOpen ? { close: { state: effect.state } } : {}) }
      continue
    }
    const step = stepsByName(body).get(effect.step)!
    const idx = body.steps.indexOf(step)
    const child = toChild(graph, composite, step, idx, effect)
    const first = firstSteps(graph, child, room)
    children.push(first.length === 0 ? child : { ...child, first })
    if (effect.kind === 'fanOut') chunks.push(...toChunks(composite.id, idx, effect.items))
  }
  return { advance: { ...entry(composite), ...more }, children, chunks }
}

/** The children of a workflow or group by the names of their steps. */
export function childrenOf(
  graph: Graph,
  composite: TakenComposite,
  outcomes: ReadonlyMap<number, Outcome>,
): Map<string, Child> {
  const { steps } = bodyAt(graph, composite.node)
  const children = new Map<string, Child>()
  for (const [index, state] of composite.children ?? []) {
    const step = steps[index]!
    const outcome = outcomes.get(index)
    children.set(step.name, {
      state: childState(state),
      ...(outcome === undefined ? {} : loaded(step, outcome)),
    })
  }
  return children
}

function loaded(step: Step, { result, tooLarge, error }: Outcome): Partial<Child> {
  const failure = error === null ? {} : { error }
  if (tooLarge !== null) return { tooLarge, ...failure }
  const isList = step.each !== undefined && Array.isArray(result)
  return {
    ...(isList ? { results: result } : step.each === undefined ? { result } : {}),
    ...failure,
  }
}

function childState(state: JobState): ChildState {
  switch (state) {
    case 'completed':
    case 'failed':
    case 'cancelled':
    case 'skipped':
      return state
    default:
      return 'active'
  }
}

function settled(effect: Extract<Effect, { kind: 'settle' }>): Advance['settle'] & object {
  if (effect.state === 'failed') return { state: 'failed', error: effect.error }
  const size = JSON.stringify(effect.result).length
  if (size <= MAX_JSON_BYTES) return { state: 'completed', result: effect.result }
  return {
    state: 'failed',
    error: `its result has ${size} characters as JSON, more than ${MAX_JSON_BYTES}: give it an output that says less`,
  }
}

/** The child that carries out what was decided about a step. */
export function toChild(
  graph: Graph,
  { id, node }: Pick<TakenComposite, 'id' | 'node'>,
  step: Step,
  idx: number,
  effect: Exclude<Effect, { kind: 'settle' }>,
): NewChild {
  const path = pathBelow(node, step.name)
  const base = { parent: id, idx, step: step.name, ...childTarget(graph, step, path) }
  const fanout = { kind: 'fanout', task: path, node: path } as const
  switch (effect.kind) {
    case 'start':
      return { ...base, ...limitsOf(step), input: effect.input, state: 'ready' }
    case 'fanOut':
      return {
        ...base,
        ...fanout,
        input: effect.scope,
        state: 'ready',
        total: effect.items.length,
        below: effect.items.length,
        ...(step.each?.window === undefined ? {} : { window: step.each.window }),
        ...(step.deadlineMs === undefined ? {} : { deadlineMs: step.deadlineMs }),
        ...(step.timeoutMs === undefined ? {} : { timeoutMs: step.timeoutMs }),
      }
    case 'skip':
      return { ...base, ...(step.each === undefined ? {} : fanout), state: 'skipped', error: effect.why }
    case 'fail':
      return { ...base, ...(step.each === undefined ? {} : fanout), state: 'failed', error: effect.error }
    default:
      return effect satisfies never
  }
}

/**
 * The first steps of a workflow or group that is about to be made, so that it need not be woken to begin; likewise those of workflows and groups
 * among them. None where it would end at once, where a fan-out begins, or where they are many or large.
 */
function firstSteps(
  graph: Graph,
  { kind, node, input = null, state }: NewChild,
  room: { steps: number },
  level = 1,
): FirstStep[] {
  if ((kind !== 'workflow' && kind !== 'group') || node === undefined || state !== 'ready') return []
  const body = bodyAt(graph, node)
  if (level > MAX_FIRST_LEVELS || body.steps.length > room.steps) return []
  if (JSON.stringify(input).length > MAX_FIRST_CHARACTERS || strategyAt(graph, node).of === 'leaves')
    return []
  const effects = advance(graph, { path: node, input: asStored(input) }, new Map())
  const begins = effects.some(({ kind }) => kind === 'start')
  if (!begins || effects.some(({ kind }) => kind === 'settle' || kind === 'fanOut')) return []
  room.steps -= effects.length
  return effects.flatMap((effect) => {
    if (effect.kind === 'settle') return []
    const step = stepsByName(body).get(effect.step)!
    const child = toChild(graph, { id: '', node }, step, body.steps.indexOf(step), effect)
    const first = firstSteps(graph, child, room, level + 1)
    const { parent, ...own } = child
    return [first.length === 0 ? own : { ...own, first }]
  })
}

type ChildTarget = Pick<NewChild, 'kind' | 'task' | 'node' | 'below'>

/** What a step runs, where in the graph that is, and how many steps it has. */
function childTarget(graph: Graph, { run }: Step, path: string): ChildTarget {
  const below = (node: string) => bodyAt(graph, node).steps.length
  switch (run.kind) {
    case 'task':
      return { kind: null, task: run.task }
    case 'workflow':
      return { kind: 'workflow', task: run.workflow, node: run.workflow, below: below(run.workflow) }
    case 'group':
      return { kind: 'group', task: path, node: path, below: below(path) }
    default:
      return run satisfies never
  }
}

function limitsOf(step: Step): Partial<NewChild> {
  const { timeoutMs, deadlineMs, retry } = step
  const deadline = deadlineMs === undefined ? {} : { deadlineMs }
  if (step.run.kind !== 'task') return timeoutMs === undefined ? deadline : { ...deadline, timeoutMs }
  const policy: LeafPolicy = {
    ...(retry === undefined ? {} : { retry }),
    ...(timeoutMs === undefined ? {} : { timeoutMs }),
  }
  return Object.keys(policy).length === 0 ? deadline : { ...deadline, policy }
}

function toChunks(parent: string, idx: number, items: readonly JsonValue[]): NewChunk[] {
  const chunks: NewChunk[] = []
  let first = 0
  let characters = 0
  for (let n = 0; n <= items.length; n++) {
    const size = n < items.length ? JSON.stringify(items[n]).length : 0
    const isFull = n - first >= CHUNK_ITEMS || characters + size > CHUNK_CHARACTERS
    if (n > first && (isFull || n === items.length)) {
      chunks.push({ parent, idx, first, items: items.slice(first, n) })
      first = n
      characters = 0
    }
    characters += size
  }
  return chunks
}

function entry({ id, version, wakeups }: TakenComposite): Advance {
  return { job: id, version, wakeups }
}

/** No new children. */
function nothing(composite: TakenComposite, more: Partial<Advance> = {}): Decision {
  return { advance: { ...entry(composite), ...more }, children: [], chunks: [] }
}
