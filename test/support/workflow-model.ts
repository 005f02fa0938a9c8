import fc from 'fast-check'

/**
 * Random workflows for tests: what the oracle interprets, and from which the definition is written that
 * the engine compiles. Leaves end as their address says, so any order of events has one right outcome.
 */
export interface ModelBody {
  readonly steps: readonly ModelStep[]
  /** The result is the status of each step, instead of the results by name. */
  readonly tellsStatus: boolean
}

export interface ModelStep {
  readonly name: string
  readonly needs: readonly string[]
  readonly on: 'success' | 'failure' | 'always'
  readonly when?: ModelCondition
  readonly run:
    | { readonly kind: 'task' }
    | { readonly kind: 'workflow'; readonly workflow: string; readonly countsDown: boolean }
    | { readonly kind: 'group'; readonly body: ModelBody }
  /** Of a fan-out: how many items, and the size of a chunk of a batch. -1: something that is no list. */
  readonly each?: { readonly items: number; readonly size?: number }
  readonly strategy?: ModelStrategy
  /** Its input reads something that is not there. */
  readonly isBroken: boolean
  /** Steps whose status and result are part of its input. */
  readonly tells: readonly string[]
}

export type ModelCondition =
  | { readonly kind: 'constant'; readonly value: boolean }
  | { readonly kind: 'status'; readonly step: string; readonly is: string }
  | { readonly kind: 'positive' }

export interface ModelStrategy {
  readonly rule: 'all' | 'any' | 'atLeast' | 'percent' | 'ignore'
  readonly n: number
  readonly of: 'children' | 'leaves'
  readonly early: boolean
}

export type Model = Readonly<Record<string, ModelBody>>

/** What is drawn for a step. Numbers are turned into names once it is known which steps come before it. */
interface Draft {
  readonly needs: readonly number[]
  readonly on: ModelStep['on']
  readonly when: {
    readonly kind: 'none' | 'false' | 'true' | 'status'
    readonly of: number
    readonly is: string
  }
  readonly kind: 'task' | 'workflow' | 'itself' | 'group'
  readonly body: BodyDraft | undefined
  readonly each: { readonly items: number; readonly size: number } | undefined
  readonly strategy: ModelStrategy | undefined
  readonly isBroken: boolean
  readonly tells: readonly number[]
}

interface BodyDraft {
  readonly steps: readonly Draft[]
  readonly prefix: string
  readonly tellsStatus: boolean
  readonly turn: number
}

export function models(options: { early: boolean }): fc.Arbitrary<Model> {
  const { early } = options
  return fc
    .record({ main: bodyDrafts(2, early), inner: bodyDrafts(1, early) })
    .map(({ main, inner }) => ({ main: finishBody(main, 'main', []), inner: finishBody(inner, 'inner', []) }))
}

function bodyDrafts(depth: number, early: boolean): fc.Arbitrary<BodyDraft> {
  return fc.record({
    steps: fc.array(stepDrafts(depth, early), { minLength: 1, maxLength: depth === 2 ? 6 : 3 }),
    prefix: fc.constantFrom('s', 'g'),
    tellsStatus: fc.boolean(),
    turn: fc.nat({ max: 5 }),
  })
}

function stepDrafts(depth: number, early: boolean): fc.Arbitrary<Draft> {
  const inner = depth === 0 ? fc.constant(undefined) : bodyDrafts(depth - 1, early)
  const kind = fc.constantFrom<Draft['kind']>('task', 'task', 'task', 'workflow', 'itself', 'group')
  return fc.record({
    needs: fc.array(fc.nat({ max: 5 }), { maxLength: 3 }),
    on: fc.constantFrom<ModelStep['on']>('success', 'success', 'success', 'failure', 'always'),
    when: fc.record({
      kind: fc.constantFrom<Draft['when']['kind']>('none', 'none', 'none', 'none', 'false', 'true', 'status'),
      of: fc.nat({ max: 5 }),
      is: fc.constantFrom('completed', 'failed', 'skipped', 'cancelled'),
    }),
    kind,
    body: inner,
    each: fc.option(fc.record({ items: fc.integer({ min: -1, max: 4 }), size: fc.nat({ max: 2 }) }), {
      nil: undefined,
      freq: 2,
    }),
    strategy: fc.option(strategies(early), { nil: undefined }),
    isBroken: fc.nat({ max: 15 }).map((n) => n === 15),
    tells: fc.array(fc.nat({ max: 9 }), { maxLength: 3 }),
  })
}

function strategies(early: boolean): fc.Arbitrary<ModelStrategy> {
  return fc
    .record({
      rule: fc.constantFrom<ModelStrategy['rule']>('all', 'any', 'atLeast', 'percent', 'ignore'),
      n: fc.integer({ min: 1, max: 3 }),
      of: early ? fc.constant('children' as const) : fc.constantFrom('children' as const, 'leaves' as const),
      early: early ? fc.boolean() : fc.constant(false),
    })
    .map((drawn) => ({
      ...drawn,
      n: drawn.rule === 'percent' ? drawn.n * 30 : drawn.n,
      early: drawn.early && drawn.rule !== 'ignore',
    }))
}

/** Steps that a reader in a body can name, because they have ended for certain. */
type Readable = readonly string[]

function finishBody(draft: BodyDraft, workflow: string, outside: Readable): ModelBody {
  const steps: ModelStep[] = []
  const before = new Map<string, Set<string>>()
  const own = draft.steps.map((_, position) => `${draft.prefix}${position}`)
  const around = outside.filter((name) => !own.includes(name))
  draft.steps.forEach((step, position) => {
    const name = own[position]!
    const needs = position === 0 ? [] : [...new Set(step.needs.map((need) => own[need % position]!))]
    const earlier = new Set(needs.flatMap((need) => [need, ...before.get(need)!]))
    before.set(name, earlier)
    steps.push(finishStep(step, name, needs, workflow, [...earlier, ...around]))
  })
  // Written in another order than they run.
  const turn = draft.turn % steps.length
  return { steps: [...steps.slice(turn), ...steps.slice(0, turn)], tellsStatus: draft.tellsStatus }
}

function finishStep(
  draft: Draft,
  name: string,
  needs: readonly string[],
  workflow: string,
  readable: Readable,
): ModelStep {
  const run = finishRun(draft, workflow, readable)
  const countsDown = run.kind === 'workflow' && run.countsDown
  const isComposite = run.kind === 'group' || draft.each !== undefined
  const when = countsDown ? ({ kind: 'positive' } as const) : finishCondition(draft.when, readable)
  return {
    name,
    needs,
    on: draft.on === 'failure' && needs.length === 0 ? 'success' : draft.on,
    ...(when === undefined ? {} : { when }),
    run,
    ...(draft.each === undefined
      ? {}
      : { each: { items: draft.each.items, ...(draft.each.size === 0 ? {} : { size: draft.each.size }) } }),
    ...(draft.strategy === undefined || !isComposite ? {} : { strategy: draft.strategy }),
    isBroken: draft.isBroken && run.kind === 'task',
    tells: readable.length === 0 ? [] : [...new Set(draft.tells.map((n) => readable[n % readable.length]!))],
  }
}

function finishRun(draft: Draft, workflow: string, readable: Readable): ModelStep['run'] {
  if (draft.kind === 'group' && draft.body !== undefined) {
    return { kind: 'group', body: finishBody(draft.body, workflow, readable) }
  }
  if (draft.kind === 'workflow' && workflow === 'main') {
    return { kind: 'workflow', workflow: 'inner', countsDown: false }
  }
  return draft.kind === 'itself' ? { kind: 'workflow', workflow, countsDown: true } : { kind: 'task' }
}

function finishCondition({ kind, of, is }: Draft['when'], readable: Readable): ModelCondition | undefined {
  if (kind === 'none') return undefined
  if (kind !== 'status') return { kind: 'constant', value: kind === 'true' }
  return readable.length === 0 ? undefined : { kind: 'status', step: readable[of % readable.length]!, is }
}

/** The definition of a model, as somebody would write it in a config file. */
export function toDefinition(model: Model): Record<string, unknown> {
  return Object.fromEntries(Object.entries(model).map(([name, body]) => [name, writeBody(body)]))
}

function writeBody({ steps, tellsStatus }: ModelBody): Record<string, unknown> {
  const statuses = steps.map(({ name }) => [name, `\${{ steps.${name}.status }}`])
  return {
    steps: Object.fromEntries(steps.map((step) => [step.name, writeStep(step)])),
    ...(tellsStatus ? { output: Object.fromEntries(statuses) } : {}),
  }
}

function writeStep(step: ModelStep): Record<string, unknown> {
  const { needs, on, when, run, each, strategy } = step
  return {
    ...writeRun(step),
    ...(needs.length === 0 ? {} : { needs }),
    ...(on === 'success' ? {} : { on }),
    ...(when === undefined ? {} : { when: writeCondition(when) }),
    ...(run.kind === 'group' ? {} : { with: writeInput(step) }),
    ...(each === undefined ? {} : writeEach(each)),
    ...(strategy === undefined ? {} : { strategy: writeStrategy(strategy) }),
  }
}

function writeRun({ run }: ModelStep): Record<string, unknown> {
  if (run.kind === 'task') return { task: 'work' }
  return run.kind === 'workflow' ? { workflow: run.workflow } : writeBody(run.body)
}

function writeInput({ run, each, isBroken, tells }: ModelStep): Record<string, unknown> {
  return {
    n: run.kind === 'workflow' && run.countsDown ? '${{ input.n - 1 }}' : '${{ input.n }}',
    ...(isBroken ? { broken: '${{ input.absent.field }}' } : {}),
    ...(each === undefined ? {} : { item: '${{ item }}', at: '${{ index }}' }),
    told: tells.map((name) => ({
      status: `\${{ steps.${name}.status }}`,
      result: `\${{ steps.${name}.result }}`,
    })),
  }
}

function writeEach({ items, size }: { items: number; size?: number }): Record<string, unknown> {
  // Whatever is drawn, the list comes out of an expression.
  const list = items < 0 ? '${{ input.n }}' : `\${{ [${itemsOf(items).join(', ')}] }}`
  return size === undefined ? { with_items: list } : { batch: { items: list, size } }
}

export function itemsOf(items: number): number[] {
  return Array.from({ length: items }, (_, index) => 10 + index)
}

function writeCondition(condition: ModelCondition): unknown {
  switch (condition.kind) {
    case 'constant':
      return condition.value
    case 'status':
      return `\${{ steps.${condition.step}.status == "${condition.is}" }}`
    case 'positive':
      return '${{ input.n > 0 }}'
    default:
      return condition satisfies never
  }
}

function writeStrategy({ rule, n, of, early }: ModelStrategy): unknown {
  const chosen = rule === 'atLeast' || rule === 'percent' ? { [rule]: n } : { rule }
  return { ...chosen, of, early }
}
