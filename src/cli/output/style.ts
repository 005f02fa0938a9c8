import type { Output } from './output.ts'

const CODES = { bold: 1, dim: 2, red: 31, green: 32, yellow: 33, blue: 34, magenta: 35, cyan: 36 } as const

export type Colour = keyof typeof CODES

/** Puts a text in a colour, or leaves it as it is where colours are not wanted. */
export type Paint = (colour: Colour, text: string) => string

export function painter(output: Output): Paint {
  if (!output.hasColour) return (_, text) => text
  return (colour, text) => (text === '' ? '' : `\u001b[${CODES[colour]}m${text}\u001b[0m`)
}
