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
 * Bodies are taken as they are: `"5"` is no number. Queries and parameters are texts, and become numbers and flags where
 * the schema wants them.
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
 * The first list with more items than it may have. Looked for first: to find out what is wrong with each of 300,000 items takes seconds, and
 * nobody else is served meanwhile.
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
  return invalidRequest(
    name,
    `${name}: it has ${length} items in ${place}, and must not have more than ${most} items`,
  )
}

function validationError(
  errors: readonly Found[],
  value: unknown,
  schema: TSchema,
  part: string,
): SluiceError {
  // Of a union every branch complains; what is deepest is closest to what was meant.
  // "boolean" is the same field as the unknown one named beside it.
  const error = errors.filter(({ keyword }) => keyword !== 'boolean').sort((a, b) => depth(b) - depth(a))[0]
  const place = PLACES[part] ?? part
  if (error === undefined) return invalidRequest(place, `${place} is not as this request needs it`)
  const path = pathOf(error.instancePath)
  if (error.keyword === 'additionalProperties') {
    const [name = ''] = (error.params as { additionalProperties?: string[] }).additionalProperties ?? []
    return invalidRequest([...path, name].join('.'), unknownField(place, path, name, schema))
  }
  if (error.keyword === 'required') {
    const names = (error.params as { requiredProperties?: string[] }).requiredProperties ?? []
    const name = [...path, names[0] ?? ''].join('.')
    return invalidRequest(name, `${name} is missing in ${place}`)
  }
  const found = at(value, path)
  const name = path.length === 0 ? place : path.join('.')
  const rule = ruleOf(error, schema)
  if (path.length === 0 && (found ?? null) === null)
    return invalidRequest(name, `${name} is missing, or null: it ${rule}`)
  // What an address has is named by its parameter, and may come from somebody who never saw the address.
  const where = path.length === 0 || part === 'params' ? '' : ` in ${place}`
  return invalidRequest(name, `${name}: ${show(found)}${where} is not right: it ${rule}`)
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

/** What would be right, in words: `must be the id of a job, a whole number such as 42`. */
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
        ? '; it takes none'
        : `; there are ${known.join(', ')}`
  return `${show([...path, name].join('.'))} is no field of ${place}${advice}`
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
