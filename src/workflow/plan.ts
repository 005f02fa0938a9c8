import { type CompiledTemplate, parseTemplate, templateReads } from './expression/template.ts'
import { type Body, type Each, type Run, type Step, stepsByName, type Template } from './graph.ts'

/**
 * A name that a template reads: `['input', 'file']`, `['steps', 'split', 'result', 'chunks']`, `['item']`.
 * Only its start matters here: which input, which field of which step.
 */
export type Read = readonly string[]

/** What advancing a body needs to know of it besides the state of its steps. Made once for a body. */
export interface BodyPlan {
  /** In the order they are written. */
  readonly steps: readonly StepPlan[]
  /** The same steps, each after the ones it needs. */
  readonly order: readonly StepPlan[]
  readonly positions: ReadonlyMap<string, number>
  readonly output: PlannedTemplate | undefined
  /** What the templates inside read of the enclosing scope. */
  readonly outside: readonly Read[]
}

export interface StepPlan {
  readonly step: Step
  readonly position: number
  /** Positions of the steps it needs. */
  readonly needs: readonly number[]
  /** Positions of the steps that handle its failure when they complete. */
  readonly handlers: readonly number[]
  readonly templates: StepTemplates
}

export interface StepTemplates {
  readonly when: PlannedTemplate | undefined
  readonly items: PlannedTemplate | undefined
  readonly input: PlannedTemplate | undefined
  /** What a group or a fan-out keeps of the scope it starts in. */
  readonly captured: readonly Read[]
  /** Everything read when the step starts. */
  readonly reads: readonly Read[]
}

export interface PlannedTemplate {
  readonly compiled: CompiledTemplate
  readonly reads: readonly Read[]
}

const bodyPlans = new WeakMap<Body, BodyPlan>()
const stepTemplates = new WeakMap<Step, StepTemplates>()

/** The plan of a body without cycles and without needs that are not there, as `compileWorkflows` makes it. */
export function planOf(body: Body): BodyPlan {
  let plan = bodyPlans.get(body)
  if (plan === undefined) {
    plan = makePlan(body)
    bodyPlans.set(body, plan)
  }
  return plan
}

export function templatesOf(step: Step): StepTemplates {
  let templates = stepTemplates.get(step)
  if (templates === undefined) {
    templates = makeTemplates(step)
    stepTemplates.set(step, templates)
  }
  return templates
}

function makePlan(body: Body): BodyPlan {
  const positions = new Map(body.steps.map((step, position) => [step.name, position]))
  const handlers: number[][] = body.steps.map(() => [])
  const needs = body.steps.map((step) => step.needs.map((name) => positions.get(name)!))
  body.steps.forEach((step, position) => {
    if (step.on === 'success') return
    for (const need of needs[position]!) handlers[need]!.push(position)
  })
  const steps = body.steps.map((step, position) => ({
    step,
    position,
    needs: needs[position]!,
    handlers: handlers[position]!,
    templates: templatesOf(step),
  }))
  const output = planTemplate(body.output, 'output')
  const inside = [...steps.flatMap(({ templates }) => templates.reads), ...(output?.reads ?? [])]
  const own = stepsByName(body)
  return {
    steps,
    order: inOrder(needs).map((position) => steps[position]!),
    positions,
    output,
    outside: distinct(inside.filter(([root, name]) => !(root === 'steps' && own.has(name ?? '')))),
  }
}

/**
 * Positions so that each comes after those it needs. Those in a cycle, or after one, are left out.
 *
 * @param needs For each position the positions it needs.
 */
export function inOrder(needs: readonly (readonly number[])[]): number[] {
  const followers: number[][] = needs.map(() => [])
  const missing = needs.map((list) => list.length)
  needs.forEach((list, position) => {
    for (const need of list) followers[need]!.push(position)
  })
  const order = [...missing.keys()].filter((position) => missing[position] === 0)
  // The list grows while it is walked: a position is added when the last one it needs has been passed.
  for (const position of order) {
    for (const follower of followers[position]!) {
      missing[follower]! -= 1
      if (missing[follower] === 0) order.push(follower)
    }
  }
  return order
}

function makeTemplates(step: Step): StepTemplates {
  const when = planTemplate(step.when, 'when')
  const items = planTemplate(step.each?.items, itemsKey(step.each))
  const input = planTemplate(step.with, 'with')
  const used = [...(input?.reads ?? []), ...readsOfGroup(step.run)]
  // The item and index of a fan-out are its own, whatever the scope around it calls by these names.
  const outer = step.each === undefined ? used : used.filter(([root]) => root !== 'item' && root !== 'index')
  return {
    when,
    items,
    input,
    captured: distinct(outer),
    reads: distinct([...(when?.reads ?? []), ...(items?.reads ?? []), ...outer]),
  }
}

/** How the key that holds the items is written, for messages. */
export function itemsKey(each: Each | undefined): string {
  return each?.size === undefined ? 'with_items' : 'batch.items'
}

function readsOfGroup(run: Run): readonly Read[] {
  return run.kind === 'group' ? planOf(run.body).outside : []
}

function planTemplate(template: Template | undefined, at: string): PlannedTemplate | undefined {
  if (template === undefined) return undefined
  const compiled = parseTemplate(template, at)
  return { compiled, reads: distinct(templateReads(compiled)) }
}

/** Cut to what is told apart (a field of a step, or one of the other roots), each once. */
function distinct(reads: readonly Read[]): readonly Read[] {
  const found = new Map<string, Read>()
  for (const read of reads) {
    const part = read[0] === 'steps' ? read.slice(0, 3) : read.slice(0, 1)
    found.set(part.join('/'), part)
  }
  return [...found.values()]
}
