import type { Output } from './output.ts'
import { type Colour, painter } from './style.ts'
import { cut, printable, widthOf } from './text-width.ts'

export interface Column<R> {
  readonly title: string
  readonly value: (row: R) => string
  readonly align?: 'right'
  /** Gives way when the terminal is too narrow; the later one first. Never below its title. */
  readonly shrinks?: true
  /** Left out when no row has anything in it. */
  readonly optional?: true
  readonly colour?: (row: R) => Colour | undefined
}

const GAP = '  '

/**
 * Writes rows in columns under their titles.
 *
 * On a terminal a line never wraps: columns that may shrink are cut, then the line is. Elsewhere everything is whole.
 */
export function writeTable<R>(output: Output, columns: readonly Column<R>[], rows: readonly R[]): void {
  const cells = columns.map((column) => rows.map((row) => printable(column.value(row))))
  const shown = columns
    .map((column, index) => ({ column, cells: cells[index]! }))
    .filter(({ column, cells }) => column.optional !== true || cells.some((cell) => cell !== ''))
  const widths = shown.map(({ column, cells }) => Math.max(column.title.length, ...cells.map(widthOf)))
  if (output.columns !== undefined) {
    const shrinkable = shown.map(({ column }) => (column.shrinks === true ? column.title.length : undefined))
    shrink(widths, shrinkable, output.columns - GAP.length * (shown.length - 1))
  }
  const paint = painter(output)
  const write = (texts: readonly string[], colours: readonly (Colour | undefined)[]) => {
    let room = output.columns ?? Number.POSITIVE_INFINITY
    let line = ''
    texts.forEach((text, index) => {
      const last = index === texts.length - 1
      const fitted = cut(cut(text, widths[index]!), room)
      const padding = ' '.repeat(Math.max(0, Math.min(room, widths[index]!) - widthOf(fitted)))
      const colour = colours[index]
      const painted = colour === undefined ? fitted : paint(colour, fitted)
      const right = shown[index]!.column.align === 'right'
      line += right ? padding + painted : last ? painted : painted + padding
      if (!last && room > GAP.length) line += GAP
      room = Math.max(0, room - widths[index]! - GAP.length)
    })
    output.line(line.trimEnd())
  }
  write(
    shown.map(({ column }) => column.title),
    shown.map(() => 'dim' as const),
  )
  rows.forEach((row, index) => {
    write(
      shown.map(({ cells }) => cells[index]!),
      shown.map(({ column }) => column.colour?.(row)),
    )
  })
}

/** Takes the excess from the columns that allow it, last first. `least` is undefined for those that do not. */
function shrink(widths: number[], least: readonly (number | undefined)[], room: number): void {
  let excess = widths.reduce((sum, width) => sum + width, 0) - room
  for (let index = widths.length - 1; index >= 0 && excess > 0; index--) {
    const floor = least[index]
    if (floor === undefined) continue
    const given = Math.max(0, Math.min(excess, widths[index]! - floor))
    widths[index] = widths[index]! - given
    excess -= given
  }
}

/** Writes names and values under each other. Values may have several lines. */
export function writeFacts(
  output: Output,
  facts: readonly (readonly [name: string, value: string | undefined])[],
): void {
  const present = facts.filter((fact): fact is readonly [string, string] => fact[1] !== undefined)
  const width = Math.max(0, ...present.map(([name]) => name.length))
  const paint = painter(output)
  for (const [name, value] of present) {
    value.split('\n').forEach((part, index) => {
      const title = (index === 0 ? name : '').padEnd(width)
      output.line(`${paint('dim', title)}  ${printable(part)}`.trimEnd())
    })
  }
}
