import { suggest } from '../../model/suggest.ts'
import type { Read } from '../plan.ts'
import { STEP_FIELDS } from '../scope.ts'
import type { Precedence } from './precedence.ts'

/** A body as seen from one of the templates in it, or in a group in it. */
export interface Level {
  /** Of all steps that are written, also of those that could not be read. */
  readonly positions: ReadonlyMap<string, number>
  readonly fanOuts: ReadonlySet<string>
  readonly precedence: Precedence
  /** The step that holds the template. The output of the body is held by none, and reads all of them. */
  readonly reader: string | undefined
}

const ROOTS = ['input', 'steps', 'item', 'index']

/**
 * What is wrong with a name that a template reads, or `undefined`.
 *
 * @param levels The bodies around the template, outermost first.
 * @param hasItem Whether `item` and `index` mean something. `before-items`: in a part of a fan-out that is
 *   rendered once, before there are items.
 */
export function checkRead(
  read: Read,
  levels: readonly Level[],
  hasItem: boolean | 'before-items',
): string | undefined {
  const [root = '', ...rest] = read
  switch (root) {
    case 'input':
      return undefined
    case 'item':
    case 'index':
      if (hasItem === true) return undefined
      return hasItem === 'before-items'
        ? `reads ${root}, but this is rendered once, before there are items; read ${root} in with`
        : `reads ${root}, which only exists in a fan-out; add with_items or batch to the step`
    case 'steps':
      return checkStepRead(rest, levels)
    default: {
      // `steps.mer-ge` is read as `steps.mer` minus `ge`.
      const cut = knownSteps(levels).find((name) => name.endsWith(`-${root}`))
      if (cut !== undefined)
        return `reads ${root}, which does not exist; write ${bracketed(cut)}, since a hyphen subtracts`
      const near = suggest(root, ROOTS)
      return `reads ${root}, which does not exist; ${near === undefined ? `there are ${ROOTS.join(', ')}` : `did you mean ${near}?`}`
    }
  }
}

function checkStepRead([name, field]: Read, levels: readonly Level[]): string | undefined {
  if (name === undefined) return 'reads steps as a whole; name the step: steps.NAME.result'
  // The innermost body with a step of that name is meant.
  const level = levels.findLast(({ positions }) => positions.has(name))
  if (level === undefined) {
    const known = knownSteps(levels)
    const near = known.find((step) => step.startsWith(`${name}-`)) ?? suggest(name, known)
    const some = known.length === 0 ? 'there are no others' : `there are ${known.slice(0, 10).join(', ')}`
    const hint = near === undefined ? some : `did you mean ${near}?`
    const how = near?.includes('-') ? ` write ${bracketed(near)}, since a hyphen subtracts` : ''
    return `reads steps.${name}, and no step is called ${name}; ${hint}${how}`
  }
  return checkReach(name, level, level === levels.at(-1)) ?? checkField(name, field, level)
}

function knownSteps(levels: readonly Level[]): string[] {
  return levels.flatMap(({ positions, reader }) => [...positions.keys()].filter((name) => name !== reader))
}

function bracketed(step: string): string {
  return `steps['${step}']`
}

/** A step that has not ended for certain has nothing to read. */
function checkReach(
  name: string,
  { reader, positions, precedence }: Level,
  isOwn: boolean,
): string | undefined {
  if (reader === undefined) return undefined
  if (name === reader) {
    return isOwn
      ? `reads steps.${name}, which is this step itself`
      : `reads steps.${name}, which is the group around this step`
  }
  const [first, later] = [positions.get(name)!, positions.get(reader)!]
  if (precedence.precedes(first, later) || !precedence.isKnown(later)) return undefined
  if (precedence.precedes(later, first))
    return `reads steps.${name}, which starts only after ${reader} has ended`
  return isOwn
    ? `reads steps.${name}, which ${reader} does not need; add ${name} to its needs`
    : `reads steps.${name}, which the group ${reader} does not need; add ${name} to the needs of ${reader}`
}

function checkField(name: string, field: string | undefined, { fanOuts }: Level): string | undefined {
  if (field === undefined)
    return `reads steps.${name} as a whole; read one of ${STEP_FIELDS.join(', ')} of it`
  if (!(STEP_FIELDS as readonly string[]).includes(field)) {
    const near = suggest(field, STEP_FIELDS)
    return `reads steps.${name}.${field}; a step has ${STEP_FIELDS.join(', ')}${near === undefined ? '' : `; did you mean ${near}?`}`
  }
  if (field === 'results' && !fanOuts.has(name)) {
    return `reads steps.${name}.results, but ${name} is not a fan-out; read steps.${name}.result`
  }
  return undefined
}
