import { hasCode, SluiceError } from '../../errors.ts'
import { show } from '../../model/argument.ts'
import { isName, NAME_RULE } from '../../model/limits.ts'
import { parseTemplate, templateReads } from '../expression/template.ts'
import type { Template } from '../graph.ts'
import { type Origin, type Ref, reference, StepHandle, toTemplate } from './reference.ts'
import { type AnyTaskLike, type AnyWorkflow, kindOf } from './runnable.ts'
import { ARGUMENTS } from './step-options.ts'

/** What is collected of a whole workflow while it is written. */
export interface WorkflowDraft {
  readonly name: string
  readonly tasks: Set<AnyTaskLike>
  readonly workflows: Set<AnyWorkflow>
  /** Workflows that steps run, given as such or by name. */
  readonly named: Set<string>
}

/** A step as the methods of `Steps` hand it over. */
export interface StepDraft {
  readonly run?: unknown
  readonly input?: unknown
  /** Of a fan-out, the input of each child. */
  readonly inputOfEach?: unknown
  readonly items?: unknown
  readonly batch?: unknown
  readonly body?: (draft: BodyDraft, item: Ref<unknown>, index: Ref<number>) => unknown
  readonly options: object
}

/** The items of one fan-out. Only its identity matters. */
interface FanOut {
  readonly name: string
}

interface Written {
  readonly definition: Record<string, unknown>
  readonly needs: ReadonlySet<string>
  /** Steps its templates read, of this body or of those around it. */
  readonly reads: Set<string>
}

/**
 * The body of a workflow or group while its function writes it.
 *
 * What it gives is a definition in the shape of the config file, so code and files are checked by one reader and
 * become the same graphs.
 */
export class BodyDraft {
  readonly workflow: WorkflowDraft
  /** The body around a group, and the step the group is there. */
  readonly #outer: { readonly draft: BodyDraft; readonly step: string } | undefined
  /** Whose items `item` and `index` are. */
  readonly #fanOut: FanOut | undefined
  readonly #steps = new Map<string, Written>()
  /** Reads of the bodies around, for the end: only then are all names here known. */
  readonly #readsOutside: { readonly origin: Origin & { kind: 'step' }; readonly where: string }[] = []
  /** The group whose function is running. */
  #inside: string | undefined
  #finished = false

  constructor(
    workflow: WorkflowDraft,
    outer?: { readonly draft: BodyDraft; readonly step: string },
    fanOut?: FanOut,
  ) {
    this.workflow = workflow
    this.#outer = outer
    this.#fanOut = fanOut
  }

  /** @throws {SluiceError} `INVALID_ARGUMENT` for what can be seen at this step alone. The rest is checked at the end. */
  add(name: string, step: StepDraft): void {
    const where = this.#where(name)
    this.#checkPlace(name, where)
    const options = readOptions(step.options, where)
    const reads = new Set<string>()
    const fanOut = step.items === undefined && step.batch === undefined ? this.#fanOut : { name }
    const convert = (key: string, value: unknown, scope = this.#fanOut) => {
      if (value === undefined) return {}
      return { [key]: this.#template(value, `${where}: ${key}`, scope, reads) }
    }
    const definition: Record<string, unknown> = {
      ...this.#runOf(step.run, where),
      ...options,
      ...convert('when', options.when),
      ...convert('with_items', step.items),
      ...convert('batch', step.batch),
      ...convert(
        'with',
        step.inputOfEach === undefined ? step.input : inputOf(step.inputOfEach, name, where, fanOut),
        fanOut,
      ),
    }
    if (step.body !== undefined) {
      Object.assign(definition, this.#group(name, step.body, fanOut, reads))
    }
    const needs = this.#readNeeds(options.needs, where)
    this.#steps.set(name, { definition, needs, reads })
  }

  /** The definition of the body, and the names of steps around it that it reads. */
  finish(output: unknown): { definition: Record<string, unknown>; outside: ReadonlySet<string> } {
    const where = this.#where()
    if (isThenable(output)) {
      throw invalidDefinition(
        where,
        'the function that writes the steps must not be async: it describes, and nothing runs yet',
      )
    }
    const reads = new Set<string>()
    const result =
      output === undefined ? {} : { output: this.#template(output, `${where}: output`, this.#fanOut, reads) }
    this.#finished = true
    this.#checkHidden()
    const steps: Record<string, unknown> = {}
    const before = new Map<string, ReadonlySet<string>>()
    for (const [name, step] of this.#steps) {
      const needs = this.#needsOf(name, step, before)
      steps[name] = { ...step.definition, ...(needs.length > 0 && { needs }) }
      for (const read of step.reads) reads.add(read)
    }
    const outside = new Set([...reads].filter((read) => !this.#steps.has(read)))
    return { definition: { steps, ...result }, outside }
  }

  #group(
    name: string,
    body: NonNullable<StepDraft['body']>,
    fanOut: FanOut | undefined,
    reads: Set<string>,
  ): object {
    const inner = new BodyDraft(this.workflow, { draft: this, step: name }, fanOut)
    this.#inside = name
    try {
      const [item, index] = itemOf(fanOut ?? { name })
      const { definition, outside } = inner.finish(body(inner, item, index))
      for (const read of outside) reads.add(read)
      return definition
    } finally {
      this.#inside = undefined
    }
  }

  #checkPlace(name: string, where: string): void {
    if (this.#finished)
      throw invalidDefinition(where, 'the steps have been written; add this one inside the function')
    if (this.#inside !== undefined) {
      throw invalidDefinition(
        where,
        `is written inside group ${this.#inside} but added outside of it; use what the group's function is given`,
      )
    }
    if (typeof name !== 'string' || !isName(name)) {
      throw invalidDefinition(this.#where(), `found a step named ${show(name)}; write ${NAME_RULE}`)
    }
    if (this.#steps.has(name)) throw invalidDefinition(where, 'there is one of that name already; rename one')
  }

  #runOf(run: unknown, where: string): object {
    if (run === undefined) return {}
    const kind = kindOf(run)
    if (kind === undefined) {
      const what = typeof run === 'string' ? `; by name: taskNamed(${show(run)})` : ''
      throw invalidDefinition(where, `found ${show(run)} to run; give a task or a workflow${what}`)
    }
    if ('task' in kind) {
      this.workflow.tasks.add(kind.task)
      return { task: kind.task.name }
    }
    const isNamed = 'named' in kind
    const { name } = isNamed ? kind.named : kind.workflow
    if (isNamed && kind.named.kind === 'task') return { task: name }
    if (!isNamed) this.workflow.workflows.add(kind.workflow)
    this.workflow.named.add(name)
    return { workflow: name }
  }

  /** Converts a value and notes what it reads. */
  #template(value: unknown, where: string, scope: FanOut | undefined, reads: Set<string>): Template {
    const { template, origins } = toTemplate(value, where)
    for (const origin of origins) this.#checkOrigin(origin, where, scope)
    for (const name of stepsIn(template)) reads.add(name)
    return template
  }

  #checkOrigin(origin: Origin, where: string, scope: FanOut | undefined): void {
    switch (origin.kind) {
      case 'input':
        if (origin.workflow === this.workflow) return
        throw invalidDefinition(
          where,
          'reads the input of another workflow; pass what is needed as its input',
        )
      case 'item':
        if (origin.fanOut === scope) return
        throw invalidDefinition(
          where,
          scope === undefined
            ? `reads ${origin.name} outside of its fan-out`
            : `reads ${origin.name} of another fan-out; here it is that of ${scope.name}`,
        )
      case 'step': {
        if (origin.body === this) return
        if (!this.#isInside(origin.body)) {
          throw invalidDefinition(
            where,
            `reads step ${origin.name} of another group or workflow, which keeps its steps to itself; return from there what is needed, and read the result`,
          )
        }
        this.#readsOutside.push({ origin, where })
        return
      }
      default:
        origin satisfies never
    }
  }

  #isInside(body: object): boolean {
    for (let draft: BodyDraft | undefined = this; draft !== undefined; draft = draft.#outer?.draft) {
      if (draft === body) return true
    }
    return false
  }

  /** By its name, a step of a body hides those around. A reference knows which one was meant. */
  #checkHidden(): void {
    for (const { origin, where } of this.#readsOutside) {
      let draft: BodyDraft | undefined = this
      for (; draft !== undefined && draft !== origin.body; draft = draft.#outer?.draft) {
        if (!draft.#steps.has(origin.name)) continue
        throw invalidDefinition(
          where,
          `reads step ${origin.name} outside the group, which has a step of that name itself; rename one`,
        )
      }
    }
  }

  #readNeeds(needs: unknown, where: string): ReadonlySet<string> {
    if (needs === undefined) return new Set()
    if (!Array.isArray(needs))
      throw invalidDefinition(where, `needs: found ${show(needs)}; write a list of steps`)
    return new Set(needs.map((need: unknown) => this.#readNeed(need, where)))
  }

  #readNeed(need: unknown, where: string): string {
    if (!(need instanceof StepHandle)) {
      throw invalidDefinition(
        where,
        `needs: found ${show(need)}; write steps as step(), each() and group() return them`,
      )
    }
    if (need.body === this) return need.name
    const group = this.#outer?.step
    throw invalidDefinition(
      where,
      this.#isInside(need.body)
        ? `needs: ${need.name} is a step outside the group; write it in the needs of ${group}`
        : `needs: ${need.name} is a step of another group or workflow; need the group`,
    )
  }

  /**
   * The steps that a step needs, in the order they are written: those it names, and those it reads, unless the
   * former come after them. Need more, and the paths `failure` and `always` would be taken for other reasons.
   */
  #needsOf(name: string, { needs, reads }: Written, before: Map<string, ReadonlySet<string>>): string[] {
    const covered = new Set([...needs].flatMap((need) => [...(before.get(need) ?? [])]))
    const read = [...reads].filter((each) => this.#steps.has(each) && each !== name && !covered.has(each))
    const all = new Set([...needs, ...read])
    before.set(name, new Set([...all].flatMap((need) => [need, ...(before.get(need) ?? [])])))
    return [...this.#steps.keys()].filter((each) => all.has(each))
  }

  #where(step?: string): string {
    const path = step === undefined ? [] : [step]
    for (let outer = this.#outer; outer !== undefined; outer = outer.draft.#outer) path.unshift(outer.step)
    return stepLocation(this.workflow.name, path)
  }
}

/** How a step is named in messages. */
export function stepLocation(workflow: string, path: readonly string[]): string {
  return path.length === 0 ? `workflow ${workflow}` : `workflow ${workflow}, step ${path.join('/')}`
}

function itemOf(fanOut: FanOut): [item: Ref<unknown>, index: Ref<number>] {
  return [
    reference('item', { kind: 'item', fanOut, name: 'item' }),
    reference('index', { kind: 'item', fanOut, name: 'index' }),
  ]
}

function inputOf(make: unknown, name: string, where: string, fanOut: FanOut = { name }): unknown {
  if (typeof make === 'function') return make(...itemOf(fanOut))
  throw invalidDefinition(
    where,
    `found ${show(make)} for the input; write a function: (item, index) => input`,
  )
}

/** What cannot be parsed reads nothing here: it is reported when the definition is read. */
function stepsIn(template: Template): string[] {
  try {
    return templateReads(parseTemplate(template, '')).flatMap(([root, name]) =>
      root === 'steps' && name !== undefined ? [name] : [],
    )
  } catch (error) {
    if (hasCode(error, 'EXPRESSION_FAILED')) return []
    throw error
  }
}

function readOptions(options: unknown, where: string): Record<string, unknown> {
  if (typeof options !== 'object' || options === null || Array.isArray(options)) {
    throw invalidDefinition(where, `found ${show(options)} for the options; write an object`)
  }
  const given = Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined))
  const misplaced = ARGUMENTS.find((key) => Object.hasOwn(given, key))
  if (misplaced === undefined) return given
  throw invalidDefinition(where, `${misplaced} is not an option here; it follows from the arguments`)
}

function isThenable(value: unknown): boolean {
  return value instanceof Promise
}

export function invalidDefinition(where: string, why: string): SluiceError {
  return new SluiceError('INVALID_ARGUMENT', `${where}: ${why}`)
}
