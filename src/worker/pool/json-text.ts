import { SluiceError } from '../../errors.ts'

/**
 * The JSON text of a value that is to be stored, or `undefined` for
 * `undefined`, a function or a symbol.
 *
 * @param what Names the value in the error, for example `the result`.
 * @throws {SluiceError} `NOT_STORABLE` for cycles, `BigInt`, numbers that are not
 *   finite, nesting too deep to write, or more than `maxBytes`.
 */
export function toJsonText(value: unknown, what: string, maxBytes: number): string | undefined {
  let text: string | undefined
  try {
    text = JSON.stringify(value, refuseNotFinite)
  } catch (error) {
    const why = error instanceof RangeError ? 'it is nested too deeply' : String((error as Error).message)
    throw new SluiceError('NOT_STORABLE', `${what} is no JSON: ${why}`, { cause: error })
  }
  const bytes = text === undefined ? 0 : Buffer.byteLength(text)
  if (bytes > maxBytes) {
    throw new SluiceError(
      'NOT_STORABLE',
      `${what} has ${bytes} bytes as JSON; at most ${maxBytes} are allowed`,
    )
  }
  return text
}

function refuseNotFinite(key: string, value: unknown): unknown {
  if (typeof value === 'number' && !Number.isFinite(value)) {
    throw new TypeError(`${key === '' ? 'it' : JSON.stringify(key)} is ${value}`)
  }
  return value
}
