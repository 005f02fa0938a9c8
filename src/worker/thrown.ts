import { fileURLToPath } from 'node:url'
import { deserialize, serialize } from 'node:v8'
import { ERROR_STATUS, type ErrorCode, SluiceError } from '../errors.ts'
import { classOf, describeThrown } from '../model/describe-thrown.ts'
import { type ErrorDetail, readDetail } from '../model/error-detail.ts'
import { BrokenWorker, StartFailure } from './attempt.ts'

/** Whatever a task threw, in a form that is safe to look at and crosses to another process. */
export type WireError =
  | {
      readonly kind: 'error'
      readonly name: string
      readonly message: string
      readonly stack?: string | undefined
      /** Own properties, as far as they can be copied. */
      readonly properties: Readonly<Record<string, unknown>>
      readonly cause?: WireError | undefined
      readonly detail?: ErrorDetail | undefined
    }
  | { readonly kind: 'value'; readonly value: unknown; readonly detail?: ErrorDetail | undefined }

/** Enough for a long message with its stack; an error is no way to send data. */
const MAX_TEXT = 65_536
const MAX_PROPERTY_BYTES = 65_536
const MAX_CAUSES = 5
const NOT_COPIED = new Set(['name', 'message', 'stack', 'cause', '__proto__'])

/** Sluice itself, as built and as written: source maps lead from one to the other. */
const PACKAGE = fileURLToPath(new URL('../../', import.meta.url))
const FOREIGN = [`${PACKAGE}src/`, `${PACKAGE}dist/`]

/** What is kept of things whose class and stack are lost in a copy. */
const details = new WeakMap<object, ErrorDetail>()

const UNREADABLE = 'the task threw something that cannot be read'

/**
 * What was thrown, copied. Never throws, whatever it is: proxies and getters run the task's code while they are
 * looked at, and may fail, or answer differently the next time. The copy is safe to look at and to send.
 *
 * @param maxText Longer messages and stacks are cut.
 */
export function toWireError(thrown: unknown, maxText = MAX_TEXT, causesLeft = MAX_CAUSES): WireError {
  try {
    if (thrown === undefined || thrown === null) return { kind: 'value', value: thrown }
    if (!(thrown instanceof Error)) return { kind: 'value', value: copyOf(thrown) ?? showThrown(thrown) }
  } catch {
    return { kind: 'error', name: 'Error', message: UNREADABLE, properties: {} }
  }
  const cause = read(() => thrown.cause)
  return {
    kind: 'error',
    name: read(() => String(thrown.name)) ?? 'Error',
    message: read(() => String(thrown.message).slice(0, maxText)) ?? UNREADABLE,
    stack: read(() => thrown.stack?.toString().slice(0, maxText)),
    properties: propertiesOf(thrown),
    cause:
      cause === undefined || cause === null || causesLeft === 0
        ? undefined
        : toWireError(cause, maxText, causesLeft - 1),
  }
}

/** What was thrown as everybody may handle it: see `toWireError` for why the thing itself is not passed on. */
export function readable(thrown: unknown): unknown {
  return fromWireError(toDetailedError(thrown, Number.POSITIVE_INFINITY))
}

/** As `toWireError`, with what is to be kept of it: only here its class, stack and content are at hand. */
export function toDetailedError(thrown: unknown, maxText = MAX_TEXT): WireError {
  // In this order: what can be looked at only once must reach the worker.
  const wire = toWireError(thrown, maxText)
  const isCopied = wire.kind === 'value' && typeof wire.value === 'object' && wire.value !== null
  const detail = isCopied ? { ...detailOf(wire.value), class: classOf(thrown as object) } : detailOf(thrown)
  // What cannot be copied is passed on as far as it could be read.
  const isLost = wire.kind === 'value' && typeof wire.value === 'string' && typeof thrown !== 'string'
  return isLost ? { kind: 'value', value: detail.value ?? wire.value, detail } : { ...wire, detail }
}

/** What is to be kept of something that was thrown. */
export function detailOf(thrown: unknown): ErrorDetail {
  return describeThrown(thrown, { foreign: FOREIGN, known: (value) => details.get(value) })
}

/**
 * The error again, as near to the thrown one as can be: its name, message,
 * stack, cause and own properties. Its class is lost, except for Sluice's own errors.
 */
export function fromWireError(wire: WireError): unknown {
  const thrown = wire.kind === 'value' ? wire.value : toError(wire)
  const detail = readDetail(wire.detail)
  if (detail !== undefined && typeof thrown === 'object' && thrown !== null) details.set(thrown, detail)
  return thrown
}

function toError(wire: WireError & { kind: 'error' }): Error {
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
    if (code === 'START_FAILED') return new StartFailure(wire.message, cause)
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

function propertiesOf(thrown: Error): Readonly<Record<string, unknown>> {
  const properties: Record<string, unknown> = {}
  for (const name of read(() => Object.keys(thrown)) ?? []) {
    if (NOT_COPIED.has(name)) continue
    const value = copyOf(read(() => (thrown as unknown as Record<string, unknown>)[name]))
    if (value !== undefined) properties[name] = value
  }
  return properties
}

/** `undefined` for what cannot be copied, or is too large. */
function copyOf(value: unknown): unknown {
  return read(() => {
    const bytes = serialize(value)
    return bytes.byteLength <= MAX_PROPERTY_BYTES ? deserialize(bytes) : undefined
  })
}

function showThrown(value: unknown): string {
  return (
    read(() => String(value).slice(0, MAX_TEXT)) ??
    read(() => Object.prototype.toString.call(value)) ??
    UNREADABLE
  )
}

function read<T>(look: () => T): T | undefined {
  try {
    return look()
  } catch {
    return undefined
  }
}
