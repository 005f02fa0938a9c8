import { hasCode } from '../../errors.ts'
import { type JsonValue, toStorableJson } from '../../model/json.ts'
import { describe } from '../../model/setting-value.ts'
import { type CompiledTemplate, parseTemplate } from '../expression/template.ts'
import type { Template } from '../graph.ts'
import type { DefinitionPart } from './definition-part.ts'

/** A template whose expressions can be parsed, or `undefined` when it is absent or was reported. */
export function readTemplate(part: DefinitionPart): Template | undefined {
  if (part.value === undefined) return undefined
  let text: string
  try {
    text = toStorableJson(part.value, 'the template')
  } catch (error) {
    if (!hasCode(error, 'NOT_STORABLE')) throw error
    return part.report(error.message)
  }
  // What JSON says of it, so that a value with a form of its own, such as a date, is kept in that form.
  const template = JSON.parse(text) as JsonValue
  // Each text by itself first: this finds all problems, with their places. The rest concerns keys and depth.
  const broken = [...textsOf(part.as(template))].filter(
    (leaf) => parse(leaf, String(leaf.value)) === undefined,
  )
  return broken.length > 0 || parse(part, template) === undefined ? undefined : template
}

function parse(part: DefinitionPart, template: Template): CompiledTemplate | undefined {
  try {
    return parseTemplate(template, '')
  } catch (error) {
    if (!hasCode(error, 'EXPRESSION_FAILED')) throw error
    return part.report(error.message)
  }
}

/** The texts of a template, wherever they are in it. */
export function* textsOf(part: DefinitionPart): Generator<DefinitionPart> {
  const { value } = part
  if (typeof value === 'string') yield part
  if (typeof value !== 'object' || value === null) return
  for (const key of Object.keys(value)) yield* textsOf(part.below(Array.isArray(value) ? Number(key) : key))
}

/** A template that gives true or false. */
export function readCondition(part: DefinitionPart): Template | undefined {
  const { value } = part
  if (value === undefined || typeof value === 'boolean') return value
  if (isExpression(value)) return readTemplate(part)
  return part.report(
    `found ${describe(value)}; write true, false or an expression, such as "\${{ input.n > 1 }}"`,
  )
}

/** A template that gives a list. */
export function readItems(part: DefinitionPart): Template | undefined {
  const { value } = part
  if (value === undefined) return undefined
  if (Array.isArray(value) || isExpression(value)) return readTemplate(part)
  return part.report(
    `found ${describe(value)}; write a list or an expression that gives one, such as "\${{ input.files }}"`,
  )
}

/** Whether a text is one expression, or one that does not parse: what is wrong with it is told elsewhere. */
function isExpression(value: unknown): boolean {
  if (typeof value !== 'string') return false
  try {
    return parseTemplate(value, '').kind === 'expression'
  } catch (error) {
    return hasCode(error, 'EXPRESSION_FAILED')
  }
}
