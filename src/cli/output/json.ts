import type { Output } from './output.ts'

/** One document. Dates become ISO texts. */
export function writeJson(output: Output, value: unknown): void {
  output.line(JSON.stringify(value, null, 2))
}

/** One of many, on a line of its own. */
export function writeJsonLine(output: Output, value: unknown): void {
  output.line(JSON.stringify(value))
}
