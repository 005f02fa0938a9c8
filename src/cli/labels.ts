import { InvalidArgumentError } from 'commander'
import type { Labels } from '../model/fields/pool.ts'
import { several } from './arguments.ts'

/** Reads an option `--label NAME=VALUE` that may be repeated. */
export function labelTexts(text: string, before: readonly string[] | undefined): readonly string[] {
  if (!/^[^=]+=/.test(text)) throw new InvalidArgumentError('Write NAME=VALUE.')
  return several(text, before)
}

/** As YAML would read them: true, false and numbers are such, the rest is text. */
export function labelsOf(given: readonly string[] = []): Labels {
  return Object.fromEntries(
    given.map((each) => {
      const at = each.indexOf('=')
      const text = each.slice(at + 1)
      const number = text.trim() === '' ? Number.NaN : Number(text)
      const value = text === 'true' ? true : text === 'false' ? false : Number.isNaN(number) ? text : number
      return [each.slice(0, at), value]
    }),
  )
}
