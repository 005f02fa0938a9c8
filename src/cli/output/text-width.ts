const segmenter = new Intl.Segmenter()

// Control characters and the like come from job data: printed as they are, they could move the cursor or worse.
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for
const UNPRINTABLE = /[\u0000-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]/g
const PLAIN = /^[\u0020-\u007e]*$/
const INVISIBLE = /^\p{Mark}/u
const WIDE =
  /^(?:\p{Emoji_Presentation}|.*\ufe0f|[\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6]|[\u{20000}-\u{3fffd}])/u

/** One line without anything a terminal would act on: line ends become spaces, other controls are spelled out. */
export function printable(text: string): string {
  return text.replace(UNPRINTABLE, (character) => {
    if (character === '\n' || character === '\r' || character === '\t') return ' '
    return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`
  })
}

/** How many columns a text takes in a terminal. Without escape sequences in it. */
export function widthOf(text: string): number {
  if (PLAIN.test(text)) return text.length
  let width = 0
  for (const { segment } of segmenter.segment(text)) width += segmentWidth(segment)
  return width
}

/** The text if it fits into that many columns, else its beginning and an ellipsis. */
export function cut(text: string, columns: number): string {
  if (widthOf(text) <= columns) return text
  if (columns <= 0) return ''
  let kept = ''
  let width = 0
  for (const { segment } of segmenter.segment(text)) {
    width += segmentWidth(segment)
    if (width > columns - 1) break
    kept += segment
  }
  return `${kept.trimEnd()}…`
}

function segmentWidth(segment: string): number {
  if (INVISIBLE.test(segment)) return 0
  return WIDE.test(segment) ? 2 : 1
}
