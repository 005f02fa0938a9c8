import type { FastifySchemaCompiler } from 'fastify'
import type { TSchema } from 'typebox'
import { Compile } from 'typebox/compile'
import { Value } from 'typebox/value'
import { SluiceError } from '../../errors.ts'
import { show } from '../../model/argument.ts'
import { suggest } from '../../model/suggest.ts'

const PLACES: Readonly<Record<string, string>> = {
  body: 'the body',
  querystring: 'the query',
  params: 'the address',
  headers: 'the headers',
}

interface Found {
  readonly keyword: string
  readonly schemaPath: string
  readonly instancePath: string
  readonly params: object
  readonly message: string
}

/**
 * Checks parts of requests by their TypeBox schemas.
 *
 * Values in bodies are not converted: `"5"` is not a number. Values in queries and paths are texts, and are converted to numbers and
 * booleans as the schema requires.
 */
export const compileValidator: FastifySchemaCompiler<TSchema> = ({ schema, httpPart = 'body' }) => {
  const check = Compile(schema)
  return (value: unknown) => {
    const given = httpPart === 'body' ? value : Value.Convert(schema, value)
    if (check.Check(given)) return { value: given }
    const long = findLongList(schema, given, [])
    if (long !== undefined) return { error: tooLong(long, given, httpPart) }
    return { error: validationError(check.Errors(given), given, schema, httpPart) }
  }
}

interface LongList {
  readonly path: readonly string[]
  readonly most: number
}

/**
 * The first list with more items than the schema allows. It is searched for first, because validating each of 300,000 items takes seconds,
 * during which no other request is served.
 */
function findLongList(schema: unknown, value: unknown, path: readonly string[]): LongList | undefined {
  const { maxItems, items, properties } = (schema ?? {}) as {
    readonly maxItems?: number
    readonly items?: unknown
    readonly properties?: Readonly<Record<string, unknown>>
  }
  if (Array.isArray(value)) {
    if (maxItems !== undefined && value.length > maxItems) return { path, most: maxItems }
    if (items === undefined) return undefined
    for (const [place, item] of value.entries()) {
      const found = findLongList(items, item, [...path, String(place)])
      if (found !== undefined) return found
    }
    return undefined
  }
  if (typeof value !== 'object' || value === null || properties === undefined) return undefined
  for (const [name, below] of Object.entries(properties)) {
    if (!Object.hasOwn(value, name)) continue
    const found = findLongList(below, (value as Record<string, unknown>)[name], [...path, name])
    if (found !== undefined) return found
  }
  return undefined
}

function tooLong({ path, most }: LongList, value: unknown, part: string): SluiceError {
  const name = path.join('.')
  const place = PLACES[part] ?? part
  const { length } = at(value, path) as readonly unknown[]
  return invalidRequest(name, `${name}: found ${length} items in ${place}; the maximum is ${most}`)
}

function validationError(
  errors: readonly Found[],
  value: unknown,
  schema: TSchema,
  part: string,
): SluiceError {
  // Every branch of a union reports errors. The deepest one comes from the branch that fits best.
  // An error with "boolean" repeats the error about an unknown field.
  const error = errors.filter(({ keyword }) => keyword !== 'boolean').sort((a, b) => depth(b) - depth(a))[0]
  const place = PLACES[part] ?? part
  if (error === undefined) return invalidRequest(place, `${place} is not valid for this request`)
  const path = pathOf(error.instancePath)
  if (error.keyword === 'additionalProperties') {
    const [name = ''] = (error.params as { additionalProperties?: string[] }).additionalProperties ?? []
    return invalidRequest([...path, name].join('.'), unknownField(place, path, name, schema))
  }
  if (error.keyword === 'required') {
    const names = (error.params as { requiredProperties?: string[] }).requiredProperties ?? []
    const name = [...path, names[0] ?? ''].join('.')
    return invalidRequest(name, `${name} is missing from ${place}`)
  }
  const found = at(value, path)
  const name = path.length === 0 ? place : path.join('.')
  const rule = ruleOf(error, schema)
  if (path.length === 0 && (found ?? null) === null)
    return invalidRequest(name, `${name} is missing, or null: it ${rule}`)
  // Path parameters are named without "in the address": users of clients may never see the address.
  const where = path.length === 0 || part === 'params' ? '' : ` in ${place}`
  return invalidRequest(name, `${name}: ${show(found)}${where} is not valid: it ${rule}`)
}

const KINDS: Readonly<Record<string, string>> = {
  string: 'a text',
  number: 'a number',
  integer: 'a whole number',
  boolean: 'true or false',
  object: 'an object',
  array: 'a list',
  null: 'null',
}

/** The rule for valid values, in words: `must be the id of a job, a whole number such as 42`. */
function ruleOf({ keyword, params, message, schemaPath }: Found, schema: TSchema): string {
  const { allowedValues, type, format } = params as {
    readonly allowedValues?: readonly unknown[]
    readonly type?: string | readonly string[]
    readonly format?: string
  }
  if (allowedValues !== undefined) return `must be one of ${allowedValues.join(', ')}`
  if (keyword === 'type' && type !== undefined)
    return `must be ${[type]
      .flat()
      .map((each) => KINDS[each] ?? each)
      .join(' or ')}`
  if (format === 'date-time') return 'must be a time such as 2031-05-01T08:00:00Z'
  const at = pathOf(schemaPath).reduce<unknown>(
    (found, step) => (found as Record<string, unknown> | undefined)?.[step],
    schema,
  )
  const words = keyword === 'pattern' ? (at as { 'x-rule'?: string } | undefined)?.['x-rule'] : undefined
  return words === undefined ? message : `must be ${words}`
}

function unknownField(place: string, path: readonly string[], name: string, schema: TSchema): string {
  const known = fieldsOf(schema, path)
  const near = suggest(name, known)
  const advice =
    near !== undefined
      ? `; did you mean ${near}?`
      : known.length === 0
        ? '; it has no fields'
        : `; the fields are ${known.join(', ')}`
  return `${show([...path, name].join('.'))} is not a field of ${place}${advice}`
}

function fieldsOf(schema: TSchema, path: readonly string[]): string[] {
  let at: unknown = schema
  for (const step of path) {
    const { properties, items } = (at ?? {}) as { properties?: Record<string, unknown>; items?: unknown }
    at = /^\d+$/.test(step) && items !== undefined ? items : properties?.[step]
  }
  return Object.keys((at as { properties?: object } | undefined)?.properties ?? {})
}

function depth(error: Found): number {
  return error.instancePath.split('/').length
}

/** A JSON pointer as a list of names. */
function pathOf(pointer: string): string[] {
  return pointer
    .split('/')
    .slice(1)
    .map((step) => step.replaceAll('~1', '/').replaceAll('~0', '~'))
}

function at(value: unknown, path: readonly string[]): unknown {
  let found = value
  for (const step of path) {
    if (typeof found !== 'object' || found === null || !Object.hasOwn(found, step)) return undefined
    found = (found as Record<string, unknown>)[step]
  }
  return found
}

function invalidRequest(argument: string, message: string): SluiceError {
  return new SluiceError('INVALID_ARGUMENT', message, { details: { argument } })
}
