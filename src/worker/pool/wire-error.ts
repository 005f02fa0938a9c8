import { serialize } from 'node:v8'
import { ERROR_STATUS, type ErrorCode, SluiceError } from '../../errors.ts'
import { BrokenWorker } from '../attempt.ts'

/** Whatever a task threw, in a form that crosses to another process. */
export type WireError =
  | {
      readonly kind: 'error'
      readonly name: string
      readonly message: string
      readonly stack?: string | undefined
      /** Own properties, as far as they can be copied. */
      readonly properties: Readonly<Record<string, unknown>>
      readonly cause?: WireError | undefined
    }
  | { readonly kind: 'value'; readonly value: unknown }

/** Enough for a long message with its stack; an error is no way to send data. */
const MAX_TEXT = 65_536
const MAX_PROPERTY_BYTES = 65_536
const MAX_CAUSES = 5
const NOT_COPIED = new Set(['name', 'message', 'stack', 'cause', '__proto__'])

export function toWireError(thrown: unknown, causesLeft = MAX_CAUSES): WireError {
  if (!(thrown instanceof Error))
    return { kind: 'value', value: copyable(thrown) ? thrown : describe(thrown) }
  const properties: Record<string, unknown> = {}
  for (const [name, value] of Object.entries(thrown)) {
    if (!NOT_COPIED.has(name) && copyable(value)) properties[name] = value
  }
  return {
    kind: 'error',
    name: String(thrown.name),
    message: String(thrown.message).slice(0, MAX_TEXT),
    stack: thrown.stack === undefined ? undefined : String(thrown.stack).slice(0, MAX_TEXT),
    properties,
    cause:
      thrown.cause === undefined || causesLeft === 0 ? undefined : toWireError(thrown.cause, causesLeft - 1),
  }
}

/**
 * The error again, as near to the thrown one as can be: its name, message,
 * stack, cause and own properties. Its class is lost, except for Sluice's own errors.
 */
export function fromWireError(wire: WireError): unknown {
  if (wire.kind === 'value') return wire.value
  const cause = wire.cause === undefined ? undefined : fromWireError(wire.cause)
  const error = revive(wire.properties.code, wire, cause)
  if (wire.stack !== undefined) Object.defineProperty(error, 'stack', hidden(wire.stack))
  return error
}

export function isWireError(value: unknown): boolean {
  if (typeof value !== 'object' || value === null || !('kind' in value)) return false
  if (value.kind === 'value') return true
  return (
    value.kind === 'error' &&
    'name' in value &&
    typeof value.name === 'string' &&
    'message' in value &&
    typeof value.message === 'string' &&
    'properties' in value &&
    typeof value.properties === 'object' &&
    value.properties !== null
  )
}

function revive(code: unknown, wire: WireError & { kind: 'error' }, cause: unknown): Error {
  if (wire.name === 'SluiceError' && typeof code === 'string' && Object.hasOwn(ERROR_STATUS, code)) {
    if (code === 'WORKER_BROKEN') return new BrokenWorker(wire.message, cause)
    const details = wire.properties.details as Record<string, unknown> | undefined
    return new SluiceError(code as ErrorCode, wire.message, { details: { ...details }, cause })
  }
  const error = cause === undefined ? new Error(wire.message) : new Error(wire.message, { cause })
  Object.defineProperty(error, 'name', hidden(wire.name))
  for (const [name, value] of Object.entries(wire.properties)) {
    if (!NOT_COPIED.has(name)) Object.assign(error, { [name]: value })
  }
  return error
}

function hidden(value: string): PropertyDescriptor {
  return { value, configurable: true, enumerable: false, writable: true }
}

function copyable(value: unknown): boolean {
  try {
    return serialize(value).byteLength <= MAX_PROPERTY_BYTES
  } catch {
    return false
  }
}

function describe(value: unknown): string {
  try {
    return String(value).slice(0, MAX_TEXT)
  } catch {
    return Object.prototype.toString.call(value)
  }
}
