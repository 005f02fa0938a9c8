/** Characters of a line. */
const WIDTH = 76
/** Items of a folded list that are shown. */
const SHOWN = 8
/** A list of more scalars than that is folded. */
const WIDE = 20

export interface FoldedJson {
  readonly text: string
  /** Whether lists were folded: `text` is then not JSON. */
  readonly folded: boolean
}

/** A value as JSON to read: what fits in a line is in one, and lists of numbers or words fill their lines. */
export function formatJson(value: unknown): string {
  return write(value, '', 0, undefined)
}

/** The same, with a wide list of numbers or words as one line that says how many there are. */
export function foldJson(value: unknown): FoldedJson {
  const seen = { folded: false }
  const text = write(value, '', 0, seen)
  return { text, folded: seen.folded }
}

/**
 * @param indent Before each line of it but the first.
 * @param taken Characters before it in its first line.
 * @param fold Wide lists are folded, and this is told.
 */
function write(value: unknown, indent: string, taken: number, fold: { folded: boolean } | undefined): string {
  if (Array.isArray(value)) {
    if (value.length > WIDE && value.every(isScalar)) {
      if (fold === undefined) return filled(value, indent)
      fold.folded = true
      return folded(value)
    }
    const line = inLine(value, indent.length + taken)
    if (line !== undefined) return line
    return block(
      '[',
      ']',
      indent,
      value.map((each) => write(each, `${indent}  `, 0, fold)),
    )
  }
  if (typeof value === 'object' && value !== null) {
    const line = inLine(value, indent.length + taken)
    if (line !== undefined) return line
    const fields = Object.entries(value).map(([name, each]) => {
      const head = `${JSON.stringify(name)}: `
      return head + write(each, `${indent}  `, head.length, fold)
    })
    return block('{', '}', indent, fields)
  }
  return JSON.stringify(value) ?? 'null'
}

function block(open: string, close: string, indent: string, parts: readonly string[]): string {
  return `${open}\n${parts.map((part) => `${indent}  ${part}`).join(',\n')}\n${indent}${close}`
}

/** All of it in one line, where it fits. Long strings are not searched: two lines say more than one that is cut. */
function inLine(value: object, taken: number): string | undefined {
  const parts = Array.isArray(value)
    ? value.map((each) => part(each))
    : Object.entries(value).map(([name, each]) => {
        const text = part(each)
        return text === undefined ? undefined : `${JSON.stringify(name)}: ${text}`
      })
  if (parts.includes(undefined)) return undefined
  const [open, close, pad] = Array.isArray(value) ? ['[', ']', ''] : ['{', '}', parts.length === 0 ? '' : ' ']
  const text = `${open}${pad}${parts.join(', ')}${pad}${close}`
  return taken + text.length <= WIDTH ? text : undefined
}

function part(value: unknown): string | undefined {
  if (typeof value === 'object' && value !== null) {
    if (Object.keys(value).length > WIDE) return undefined
    return inLine(value, 0)
  }
  return JSON.stringify(value) ?? 'null'
}

function isScalar(value: unknown): boolean {
  return typeof value !== 'object' || value === null
}

/** A list of scalars over several lines, each as full as it can be. */
function filled(items: readonly unknown[], indent: string): string {
  const lines: string[] = []
  let line = ''
  for (const [at, item] of items.entries()) {
    const text = `${JSON.stringify(item) ?? 'null'}${at === items.length - 1 ? '' : ','}`
    if (line !== '' && indent.length + 2 + line.length + 1 + text.length > WIDTH) {
      lines.push(line)
      line = text
    } else line += line === '' ? text : ` ${text}`
  }
  lines.push(line)
  return `[\n${lines.map((each) => `${indent}  ${each}`).join('\n')}\n${indent}]`
}

function folded(items: readonly unknown[]): string {
  const first: string[] = []
  for (const item of items.slice(0, SHOWN)) {
    const text = JSON.stringify(item) ?? 'null'
    if (first.join(', ').length + text.length > WIDTH / 2) break
    first.push(text)
  }
  const kind = items.every((each) => typeof each === 'number')
    ? 'numbers'
    : items.every((each) => typeof each === 'string')
      ? 'strings'
      : 'items'
  return `[${[...first, '…'].join(', ')} ${items.length.toLocaleString('en')} ${kind}]`
}
