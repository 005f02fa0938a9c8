import { checkOptions, invalidArgument } from '../argument.ts'
import type { Fields, StoredFields, WrittenFields } from './field.ts'

/**
 * What an operator changes, by the names under which it is stored. What is left out stays as it is.
 *
 * @throws {SluiceError} `INVALID_ARGUMENT` naming the field; the bounds are those of the config file.
 */
export function readChange<F extends Fields>(fields: F, change: WrittenFields<F>): Partial<StoredFields<F>> {
  checkOptions(change, Object.keys(fields), 'change')
  const read: Record<string, unknown> = {}
  for (const [name, value] of Object.entries(change)) {
    if (value === undefined) continue
    const field = fields[name]!
    const stored = field.read(value)
    if (stored === undefined) throw invalidArgument(name, value, field.expected)
    read[field.storedAs] = stored
  }
  return read as Partial<StoredFields<F>>
}
