import { SluiceError } from '../errors.ts'
import type { JsonValue } from '../model/json.ts'
import type { RetryPolicy } from '../model/retry.ts'

/**
 * A workflow as it runs: its steps, and every workflow that can be reached from it.
 *
 * Plain JSON, so that it can be stored with a run and named by a hash of its canonical text. A graph is
 * never changed: whoever changes a workflow makes another graph.
 */
export interface Graph {
  readonly version: 1
  /** The workflow that a submission starts. */
  readonly main: string
  readonly workflows: Readonly<Record<string, Body>>
}

/** The inside of a workflow or of a group. */
export interface Body {
  /** In the order they are written. */
  readonly steps: readonly Step[]
  /** Makes the result. Without it, the result holds the results of the steps by name. */
  readonly output?: Template
}

export interface Step {
  readonly name: string
  readonly run: Run
  /** Steps of the same body that end before this one starts. */
  readonly needs: readonly string[]
  /** Which endings of the needed steps lead here. */
  readonly on: 'success' | 'failure' | 'always'
  /** Rendered once, when the needed steps have ended. False: the step is skipped. */
  readonly when?: Template
  /** The input of what runs. Groups have none: they read the enclosing scope. */
  readonly with?: Template
  /** Makes the step a fan-out. */
  readonly each?: Each
  /** How a group or a fan-out is judged. Of a fan-out of groups: the fan-out; its groups are judged by `all`. */
  readonly strategy: Strategy
  /** Of the leaf jobs. What is absent comes from the task. */
  readonly retry?: Partial<RetryPolicy>
  readonly timeoutMs?: number
  /** 0: none. */
  readonly deadlineMs?: number
}

export type Run =
  | { readonly kind: 'task'; readonly task: string }
  | { readonly kind: 'workflow'; readonly workflow: string }
  | { readonly kind: 'group'; readonly body: Body }

/** The names of all tasks that a run of the graph can come to, those of groups and sub-workflows included. */
export function tasksOf({ workflows }: Graph): ReadonlySet<string> {
  return new Set(Object.values(workflows).flatMap(tasksInside))
}

function tasksInside({ steps }: Body): string[] {
  return steps.flatMap(({ run }) => {
    if (run.kind === 'task') return [run.task]
    return run.kind === 'group' ? tasksInside(run.body) : []
  })
}

export interface Each {
  /** Renders to a list. */
  readonly items: Template
  /** Of a batch: how many items make a chunk. Each chunk is then one item of the fan-out. */
  readonly size?: number
  /** How many children may be in flight. Without it, all. */
  readonly window?: number
}

export interface Strategy {
  readonly rule: 'all' | 'any' | 'atLeast' | 'percent' | 'ignore'
  /** Of `atLeast` a number of children, of `percent` a share with up to three decimals. */
  readonly n?: number
  /** What is counted: direct children, or the leaf jobs below them. */
  readonly of: 'children' | 'leaves'
  /** Ends the composite as soon as the verdict is certain. */
  readonly early: boolean
}

/** Texts in it may hold `${{ expression }}`. A text that is one expression keeps the type of its value. */
export type Template = JsonValue

export const ALL: Strategy = { rule: 'all', of: 'children', early: false }

/** The path of a step's place in the graph, below the path of its body. Names hold no `/`. */
export function pathBelow(path: string, step: string): string {
  return `${path}/${step}`
}

/**
 * The steps of the workflow (`pipeline`) or group (`pipeline/publish`) at a path.
 *
 * @throws {SluiceError} `INVALID_ARGUMENT` when the graph has none there.
 */
export function bodyAt(graph: Graph, path: string): Body {
  const found = find(graph, path)
  const body = found.step === undefined ? found.body : groupBody(found.step)
  if (body === undefined) throw missing(graph, path, 'neither a workflow nor a group')
  return body
}

/**
 * The step at a path such as `pipeline/align`.
 *
 * @throws {SluiceError} `INVALID_ARGUMENT` when the graph has none there.
 */
export function stepAt(graph: Graph, path: string): Step {
  const { step } = find(graph, path)
  if (step === undefined) throw missing(graph, path, 'no step')
  return step
}

/** How the workflow or group at a path is judged. Workflows and the groups of a fan-out: all must succeed. */
export function strategyAt(graph: Graph, path: string): Strategy {
  const { step } = find(graph, path)
  return step === undefined || step.each !== undefined ? ALL : step.strategy
}

function find(graph: Graph, path: string): { body: Body | undefined; step: Step | undefined } {
  const [workflow, ...names] = path.split('/')
  let body = Object.hasOwn(graph.workflows, workflow!) ? graph.workflows[workflow!] : undefined
  let step: Step | undefined
  for (const name of names) {
    step = body === undefined ? undefined : stepsByName(body).get(name)
    if (step === undefined) throw missing(graph, path, `no step ${name}`)
    body = groupBody(step)
  }
  return { body, step }
}

function groupBody(step: Step): Body | undefined {
  return step.run.kind === 'group' ? step.run.body : undefined
}

const indexes = new WeakMap<Body, ReadonlyMap<string, Step>>()

/** The steps of a body by their names. Made once for a body. */
export function stepsByName(body: Body): ReadonlyMap<string, Step> {
  let index = indexes.get(body)
  if (index === undefined) {
    index = new Map(body.steps.map((step) => [step.name, step]))
    indexes.set(body, index)
  }
  return index
}

function missing(graph: Graph, path: string, what: string): SluiceError {
  return new SluiceError('INVALID_ARGUMENT', `the graph of ${graph.main} has ${what} at ${path}`, {
    details: { main: graph.main, path },
  })
}
