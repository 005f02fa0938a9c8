/** A number in a JSON text that changes when it is parsed. */
export interface InexactNumber {
  /** Its path, such as `input.orders[0].id`. Empty for the text itself. */
  readonly path: string
  /** The number as written, at most 40 characters. */
  readonly written: string
}

/**
 * Only texts that match can contain such a number, because 15 digits always survive. This rules out most texts in
 * native code.
 */
const SUSPICIOUS = /[0-9.]{16}|[eE][+-]?[0-9]{3}/

/**
 * Every double can be written with this many digits. Longer fractions lose precision; fractions of this length are
 * measured values.
 */
const MOST_DIGITS = 17
const MAX_WRITTEN = 40
const NUMBER = /-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/y

/**
 * Finds the first number in a JSON text that loses digits when JavaScript parses it, such as 9007199254740993, or that
 * is too large for it. Returns `undefined` if all numbers survive.
 *
 * @param text Valid JSON.
 */
export function findInexactNumber(text: string): InexactNumber | undefined {
  if (!SUSPICIOUS.test(text)) return undefined
  const path: (string | number)[] = []
  let key: string | undefined
  for (let at = 0; at < text.length; ) {
    const char = text[at]!
    if (char === '"') {
      const end = endOfText(text, at)
      key = text.slice(at, end)
      at = end
      continue
    }
    if (char === '{') path.push('')
    else if (char === '[') path.push(0)
    else if (char === '}' || char === ']') path.pop()
    else if (char === ':') path[path.length - 1] = key!
    else if (char === ',') {
      const last = path.at(-1)
      if (typeof last === 'number') path[path.length - 1] = last + 1
    } else if (char === '-' || (char >= '0' && char <= '9')) {
      NUMBER.lastIndex = at
      const written = NUMBER.exec(text)![0]
      if (!staysExact(written)) return { path: pathOf(path), written: shorten(written) }
      at += written.length
      continue
    }
    at++
  }
  return undefined
}

/** Whether a number survives conversion to a double. */
export function staysExact(written: string): boolean {
  const before = normal(written)
  if (before.digits.length <= 15 && Math.abs(before.exponent) < 290) return true
  const value = Number(written)
  if (!Number.isFinite(value)) return false
  const after = normal(String(value))
  if (before.digits === after.digits && before.exponent === after.exponent) return true
  const isWhole = before.exponent >= before.digits.length
  return !isWhole && value !== 0 && before.digits.length <= MOST_DIGITS
}

/** The significant digits and the exponent: the value is 0.DIGITS times ten to the exponent. */
function normal(written: string): { readonly digits: string; readonly exponent: number } {
  const [, whole = '', fraction = '', power = '0'] =
    /^-?(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/.exec(written) ?? []
  const all = whole + fraction
  const leading = /^0*/.exec(all)![0].length
  const digits = all.slice(leading).replace(/0+$/, '')
  return digits === ''
    ? { digits, exponent: 0 }
    : { digits, exponent: whole.length - leading + Number(power) }
}

function endOfText(text: string, start: number): number {
  for (let at = start + 1; at < text.length; at++) {
    if (text[at] === '\\') at++
    else if (text[at] === '"') return at + 1
  }
  return text.length
}

/** Shows the last ten parts, because a path may have a thousand. */
function pathOf(parts: readonly (string | number)[]): string {
  const shown = parts.slice(-10).map((part, at) => {
    if (typeof part === 'number') return `[${part}]`
    const name = JSON.parse(part) as string
    return `${at === 0 ? '' : '.'}${name.slice(0, 50)}`
  })
  return `${parts.length > 10 ? '…' : ''}${shown.join('')}`
}

function shorten(written: string): string {
  return written.length > MAX_WRITTEN ? `${written.slice(0, MAX_WRITTEN)}…` : written
}

/** The message about such a number. */
export function explainInexact({ path, written }: InexactNumber): string {
  const where = path === '' ? written : `${path}: ${written}`
  return `${where} has more digits than JSON numbers keep; send it as a text: "${written}"`
}
