import type { JsonValue } from '../model/json.ts'
import type { Scope } from './expression/expression.ts'
import type { Read } from './plan.ts'

/** The fields of a step that a template can read. */
export const STEP_FIELDS = ['result', 'status', 'results', 'error'] as const

/** A field of a step of the own body; `undefined` when it has no such step. */
export type OwnSteps = (step: string, field: string) => JsonValue | undefined

/**
 * The part of a scope that some templates read. Own steps hide those of the same name outside.
 *
 * Nothing else is put in, so that the cost of rendering does not grow with the number of steps, and a
 * composite keeps no results that nobody reads.
 */
export function pick(reads: readonly Read[], own: OwnSteps, outside: Scope): Scope {
  const scope: { input?: JsonValue; item?: JsonValue; index?: JsonValue } = {}
  const steps: Record<string, Record<string, JsonValue>> = Object.create(null)
  let readsSteps = false
  for (const [root, step, field] of reads) {
    if (root === 'steps') {
      if (step === undefined || field === undefined) continue
      steps[step] ??= {}
      const inside = own(step, field)
      steps[step][field] = inside === undefined ? fieldOutside(outside, step, field) : inside
      readsSteps = true
    } else if (root === 'input' || root === 'item' || root === 'index') {
      scope[root] = outside[root] ?? null
    }
  }
  return readsSteps ? { ...scope, steps: { ...steps } } : scope
}

function fieldOutside({ steps = {} }: Scope, step: string, field: string): JsonValue {
  return Object.hasOwn(steps, step) ? (steps[step]![field] ?? null) : null
}

/** The scope a composite was stored with. */
export function asScope(input: JsonValue): Scope {
  return typeof input === 'object' && input !== null && !Array.isArray(input) ? (input as Scope) : {}
}

/** For steps that see nothing but the scope around them. */
export const NO_STEPS: OwnSteps = () => undefined
