const WIDTH = 24

/** A part of a whole, as a bar. What is there at all shows, and what is not quite full does not look so. */
export function bar(part: number, whole: number): string {
  const exact = whole <= 0 ? (part > 0 ? WIDTH : 0) : (part / whole) * WIDTH
  const least = part > 0 ? 1 : 0
  const most = part < whole ? WIDTH - 1 : WIDTH
  const filled = Math.max(least, Math.min(most, Math.round(exact)))
  return '█'.repeat(filled) + '░'.repeat(WIDTH - filled)
}
