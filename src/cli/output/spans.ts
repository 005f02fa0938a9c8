import type { Colour, Paint } from './style.ts'
import { cut, widthOf } from './text-width.ts'

/** A piece of a line. Kept apart from its colour, so that a line can be cut to the width of the terminal. */
export type Span = readonly [text: string, colour?: Colour | undefined]

/** The line, no wider than the terminal. */
export function renderSpans(spans: readonly Span[], columns: number, paint: Paint): string {
  let left = columns
  let line = ''
  for (const [text, colour] of spans) {
    if (left <= 0) break
    const fitted = cut(text, left)
    left = fitted === text ? left - widthOf(text) : 0
    line += colour === undefined ? fitted : paint(colour, fitted)
  }
  return line
}

export function spansWidth(spans: readonly Span[]): number {
  return spans.reduce((sum, [text]) => sum + widthOf(text), 0)
}
