import { isName } from '../../model/limits.ts'
import { describe, type Path } from '../../model/setting-value.ts'
import { suggest } from '../../model/suggest.ts'
import { ALL, type Body, type Run, type Step } from '../graph.ts'
import type { DefinitionPart } from './definition-part.ts'
import { readDeadline, readEach, readOn, readRetry, readStrategy, readTimeout } from './read-options.ts'
import { readCondition, readTemplate } from './read-template.ts'

/** What steps may name. */
export interface KnownNames {
  readonly tasks: ReadonlySet<string> | undefined
  readonly workflows: ReadonlySet<string>
  /** Where steps go whose task is not among `tasks`, when another program may bring it. Without it, they are problems. */
  readonly missing?: MissingTask[] | undefined
}

/** A step whose task is not known here. */
export interface MissingTask {
  /** From the name of the workflow on. */
  readonly path: Path
  readonly task: string
}

/** More steps in one workflow, its groups included, are refused: each advance looks at all steps of a body. */
export const MAX_STEPS = 10_000
/** Groups in groups. Reading and rendering go down by recursion. */
const MAX_DEPTH = 32

const KINDS = ['task', 'workflow', 'steps'] as const
type Kind = (typeof KINDS)[number]
const KIND_WORDS = { task: 'task', workflow: 'sub-workflow', steps: 'group' } as const

const STEP_KEYS = [
  ...KINDS,
  'needs',
  'on',
  'when',
  'with',
  'with_items',
  'batch',
  'concurrency',
  'strategy',
  'retry',
  'timeout',
  'deadline',
  'output',
] as const

/** Options that decide where and how a job takes a slot. They belong to tasks. */
const SLOT_OPTIONS = [
  'executor',
  'execution',
  'exec',
  'process',
  'user',
  'lane',
  'laneFixed',
  'slots',
  'perWorker',
  'key',
  'priority',
  'uses',
  'model',
  'requires',
  'approval',
  'keys',
  'onLost',
  'losses',
  'env',
]

interface Reading extends KnownNames {
  readonly workflow: DefinitionPart
  /** Steps met so far. */
  count: number
}

/** Reads the definition of one workflow. What cannot be read is reported and left out. */
export function readBody(part: DefinitionPart, known: KnownNames): Body | undefined {
  if (part.knownKeys(['steps', 'output'], explainWorkflowKey) === undefined) return undefined
  if (!part.has('steps')) return part.report('has no steps; write steps: with at least one step')
  return readInside(part, { ...known, workflow: part, count: 0 }, 0)
}

function explainWorkflowKey(key: string): string | undefined {
  return SLOT_OPTIONS.includes(key) ? refuseSlotOption(key, 'workflow') : undefined
}

function refuseSlotOption(key: string, what: string): string {
  return `a ${what} waits for its children and never takes a slot, so it has no ${key}; set ${key} on the tasks it runs`
}

/** The steps and output of a workflow or group. */
function readInside(part: DefinitionPart, reading: Reading, depth: number): Body | undefined {
  const at = part.below('steps')
  const names = at.names()
  if (names === undefined) return undefined
  if (at.keys()?.length === 0) return at.report('has no steps; write at least one')
  if (depth > MAX_DEPTH) {
    return at.report(`groups are nested more than ${MAX_DEPTH} deep; make a workflow of the inner ones`)
  }
  const before = reading.count
  reading.count += names.length
  if (reading.count > MAX_STEPS) {
    if (before <= MAX_STEPS) {
      reading.workflow.report(
        `has more than ${MAX_STEPS} steps; use with_items, or split it into workflows`,
        'key',
      )
    }
    return undefined
  }
  const steps = names.map((name) => readStep(at.below(name), name, reading, depth))
  const output = readTemplate(part.below('output'))
  return { steps: steps.filter((step) => step !== undefined), ...defined({ output }) }
}

function readStep(part: DefinitionPart, name: string, reading: Reading, depth: number): Step | undefined {
  const kind = readKind(part)
  if (kind === undefined) return undefined
  const written = part.knownKeys(STEP_KEYS, (key) => explainStepKey(key, kind, part))
  if (written === undefined) return undefined
  checkPlaces(part, kind)
  const run = readRun(part, kind, reading, depth)
  const needs = readNeeds(part.below('needs'))
  const on = readOn(part)
  const options = defined({
    when: readCondition(part.below('when')),
    with: kind === 'steps' ? undefined : readTemplate(part.below('with')),
    each: readEach(part),
    retry: kind === 'task' ? readRetry(part.below('retry')) : undefined,
    timeoutMs: readTimeout(part.below('timeout'), kind === 'task'),
    deadlineMs: readDeadline(part.below('deadline')),
  })
  const strategy = readStrategy(part.below('strategy')) ?? ALL
  return run && { name, run, needs, on, ...options, strategy }
}

function readKind(part: DefinitionPart): Kind | undefined {
  if (part.keys() === undefined) return undefined
  const kinds = KINDS.filter((kind) => part.has(kind))
  if (kinds.length === 1) return kinds[0]
  return kinds.length === 0
    ? part.report('says not what to run; write one of task, workflow or steps')
    : part.report(`has ${kinds.join(' and ')}; a step runs one thing: keep one of them`)
}

function explainStepKey(key: string, kind: Kind, part: DefinitionPart): string | undefined {
  if (!SLOT_OPTIONS.includes(key)) return undefined
  if (kind !== 'task') return refuseSlotOption(key, KIND_WORDS[kind])
  return `belongs to the task, not to a step; set it under tasks.${String(part.below('task').value)}`
}

/** Keys that are right in a step, but not in every kind of step. */
function checkPlaces(part: DefinitionPart, kind: Kind): void {
  const isFanOut = part.has('with_items') || part.has('batch')
  const refuse = (key: string, message: string) => {
    if (part.has(key)) part.below(key).report(message, 'key')
  }
  if (part.has('with_items') && part.has('batch')) {
    refuse('batch', 'stands beside with_items; a fan-out has one list: keep one of them')
  }
  if (!isFanOut) {
    refuse('concurrency', 'bounds the children of a fan-out; add with_items or batch, or remove it')
    if (kind !== 'steps') {
      refuse('strategy', 'judges the children of a group or fan-out; add with_items or batch, or remove it')
    }
  }
  if (kind !== 'task') {
    refuse('retry', `a ${KIND_WORDS[kind]} is not tried again; put retry on the tasks it runs`)
  }
  if (kind === 'steps') {
    refuse('with', 'a group reads the scope around it and has no input of its own; remove it')
  } else {
    refuse(
      'output',
      `makes the result of a workflow or group; the result here is that of the ${KIND_WORDS[kind]}`,
    )
  }
}

function readRun(part: DefinitionPart, kind: Kind, reading: Reading, depth: number): Run | undefined {
  const at = part.below(kind)
  if (kind === 'steps') {
    const body = readInside(part, reading, depth + 1)
    return body && { kind: 'group', body }
  }
  const name = at.value
  if (typeof name !== 'string') {
    return at.report(`found ${describe(name)}; write the name of a ${kind}`)
  }
  if (kind === 'task') {
    if (!isKnownTask(name, reading)) {
      const { missing, workflows } = reading
      if (missing !== undefined && isName(name) && !workflows.has(name))
        missing.push({ path: at.path, task: name })
      else reportUnknown(at, 'task', name, reading)
    }
    return { kind, task: name }
  }
  if (!reading.workflows.has(name)) reportUnknown(at, 'workflow', name, reading)
  return { kind, workflow: name }
}

function isKnownTask(name: string, { tasks, workflows }: KnownNames): boolean {
  return tasks === undefined ? !workflows.has(name) : tasks.has(name)
}

function reportUnknown(
  at: DefinitionPart,
  kind: 'task' | 'workflow',
  name: string,
  { tasks, workflows }: KnownNames,
): void {
  const [others, otherKind] =
    kind === 'task' ? ([workflows, 'workflow'] as const) : ([tasks, 'task'] as const)
  if (others?.has(name)) {
    at.report(`${name} is a ${otherKind}; write ${otherKind}: ${name}`)
    return
  }
  const known = [...((kind === 'task' ? tasks : workflows) ?? [])]
  const near = suggest(name, known)
  const some = known.length === 0 ? 'there is none yet' : `there are ${known.slice(0, 10).join(', ')}`
  const more = known.length > 10 ? ` and ${known.length - 10} more` : ''
  const hint = near === undefined ? `${some}${more}` : `did you mean ${near}?`
  at.report(`no ${kind} is called ${describe(name)}; ${hint}`)
}

function readNeeds(at: DefinitionPart): readonly string[] {
  const { value } = at
  if (value === undefined || value === null) return []
  if (!Array.isArray(value)) {
    at.report(`found ${describe(value)}; write a list of steps, such as [split]`)
    return []
  }
  const needs = new Set<string>()
  value.forEach((name: unknown, place) => {
    if (typeof name !== 'string') at.below(place).report(`found ${describe(name)}; write the name of a step`)
    else if (needs.has(name)) at.below(place).report(`${name} is listed twice; keep one`)
    else needs.add(name)
  })
  return [...needs]
}

type Defined<T> = { [K in keyof T]?: Exclude<T[K], undefined> }

/** Without the keys whose value is `undefined`: a graph is JSON, which has none. */
function defined<T extends object>(options: T): Defined<T> {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined)) as Defined<T>
}
