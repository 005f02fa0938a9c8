import { isList, isMap, type JsonValue } from '../../model/json.ts'
import { describe } from '../../model/setting-value.ts'
import type { Effort } from '../expression/bounds.ts'
import type { Scope } from '../expression/expression.ts'
import { ExpressionError, showExpression } from '../expression/expression-error.ts'
import { renderTemplate } from '../expression/template.ts'
import type { Each, Step, Template } from '../graph.ts'
import { itemsKey, type Read, templatesOf } from '../plan.ts'
import { asScope, NO_STEPS, pick } from '../scope.ts'

/** What becomes of a step once the steps it needs have ended. */
export type StepEffect =
  /** Create its job. The input of a task or workflow, or the scope of a group. */
  | { readonly kind: 'start'; readonly step: string; readonly input: JsonValue }
  /** Create a fan-out with a child for each item; of a batch, the items are the chunks. */
  | {
      readonly kind: 'fanOut'
      readonly step: string
      readonly scope: JsonValue
      readonly items: readonly JsonValue[]
    }
  /** It is not taken. */
  | { readonly kind: 'skip'; readonly step: string; readonly why: string }
  /** It was taken and could not be rendered: it has failed without a job that ran. */
  | { readonly kind: 'fail'; readonly step: string; readonly error: string }

/** A template reads results that are too large to be loaded. */
export class TooLarge extends Error {
  constructor(step: string, field: string, bytes: number) {
    const mib = Math.ceil(bytes / 1024 / 1024)
    super(
      `steps.${step}.${field}: it has ${mib} MiB as JSON, and what is read at once may have 64 MiB together: let the step give less, a place where its data is for example`,
    )
  }
}

/** Something about a step that cannot be rendered, in the words the step then fails with. */
class Refused extends Error {}

/**
 * Renders a step that is about to start.
 *
 * @param scopeFor The part of the enclosing scope that some templates read.
 */
export function renderStep(step: Step, scopeFor: (reads: readonly Read[]) => Scope): StepEffect {
  const { name } = step
  const { when, items, captured } = templatesOf(step)
  try {
    if (when !== undefined) {
      const answer = attempt(() => renderTemplate(when.compiled, scopeFor(when.reads)))
      if (answer === false) return { kind: 'skip', step: name, why: 'when is false' }
      if (answer !== true) throw refused('when', step.when, answer, 'it must give true or false')
    }
    const scope = attempt(() => scopeFor(captured))
    if (step.each === undefined || items === undefined) {
      return { kind: 'start', step: name, input: renderInput(step, scope) }
    }
    const key = itemsKey(step.each)
    const list = attempt(() => renderTemplate(items.compiled, scopeFor(items.reads)))
    if (!isList(list)) throw refused(key, step.each.items, list, 'it must give a list')
    return { kind: 'fanOut', step: name, scope: asJson(scope), items: inChunks(list, step.each) }
  } catch (error) {
    if (error instanceof Refused) return { kind: 'fail', step: name, error: error.message }
    throw error
  }
}

/**
 * The input of one child of a fan-out: of a group its scope, else its rendered `with`.
 *
 * Without `with`, the child gets the item itself. Of a batch it gets `with` and, beside it, `items` (the
 * chunk) and `index`.
 *
 * @param scope What the fan-out was created with.
 * @param item Of a batch, the chunk.
 * @param effort What rendering takes is added here.
 * @returns The input, or why it could not be rendered: the child then has failed.
 */
export function renderChild(
  step: Step,
  scope: JsonValue,
  item: JsonValue,
  index: number,
  effort?: Effort,
): { readonly input: JsonValue } | { readonly error: string } {
  const inside = { ...asScope(scope), item, index }
  try {
    if (step.run.kind === 'group' || step.each?.size === undefined) {
      const isBare = step.run.kind !== 'group' && step.with === undefined
      return { input: isBare ? item : renderInput(step, inside, effort) }
    }
    const input = renderInput(step, inside, effort)
    if (!isMap(input)) {
      throw refused('with', step.with, input, 'a batch adds items and index to it, so it must give a map')
    }
    return { input: { ...input, items: item, index } }
  } catch (error) {
    if (error instanceof Refused) return { error: error.message }
    throw error
  }
}

function renderInput(step: Step, scope: Scope, effort?: Effort): JsonValue {
  if (step.run.kind === 'group') return asJson(scope)
  const { input } = templatesOf(step)
  if (input === undefined) return {}
  // A template gets no more than it reads.
  return attempt(() => renderTemplate(input.compiled, pick(input.reads, NO_STEPS, scope), effort))
}

/** Chunks of a batch; items as they are of a plain fan-out. */
function inChunks(items: readonly JsonValue[], { size }: Each): readonly JsonValue[] {
  if (size === undefined) return items
  return Array.from({ length: Math.ceil(items.length / size) }, (_, chunk) =>
    items.slice(chunk * size, (chunk + 1) * size),
  )
}

function attempt<T>(render: () => T): T {
  try {
    return render()
  } catch (error) {
    throw new Refused(renderingError(error))
  }
}

/** What a template gave is not what its place needs. A template that is no text is in the definition as it is. */
function refused(at: string, template: Template | undefined, gave: JsonValue, right: string): Refused {
  const source = typeof template === 'string' ? `${showExpression(template)} ` : ''
  return new Refused(`${at}: ${source}gave ${describe(gave)}; ${right}`)
}

/** What is told of a template that could not be rendered. It names the template and the place in it. */
export function renderingError(error: unknown): string {
  if (error instanceof ExpressionError || error instanceof TooLarge) return error.message
  throw error
}

/** Scopes hold JSON and nothing else. */
function asJson(scope: Scope): JsonValue {
  return scope as JsonValue
}
