/**
 * Returns the known word that was most likely meant, or `undefined` if none is close.
 *
 * Spelling variants (`cycle_max`, `CycleMax`) count as the same word. Otherwise one typo per three letters is allowed,
 * where a typo is a letter added, missing, wrong, or swapped with its neighbour.
 */
export function suggest(word: string, known: readonly string[]): string | undefined {
  const plain = simplify(word)
  const same = known.find((candidate) => simplify(candidate) === plain)
  if (same !== undefined) return same
  // The distance costs the product of the lengths, which is too slow for a pasted paragraph.
  if (plain.length > 40) return undefined
  let best: string | undefined
  let bestSlips = Math.max(1, Math.floor(plain.length / 3)) + 1
  for (const candidate of known) {
    const slips = countSlips(plain, simplify(candidate))
    if (slips < bestSlips) {
      best = candidate
      bestSlips = slips
    }
  }
  return best
}

function simplify(word: string): string {
  return word.toLowerCase().replace(/[-_\s]/g, '')
}

/** Edit distance with swaps of neighbours (optimal string alignment). */
function countSlips(from: string, to: string): number {
  let beforeLast: number[] = []
  let last = Array.from({ length: to.length + 1 }, (_, column) => column)
  for (let row = 1; row <= from.length; row++) {
    const current = [row]
    for (let column = 1; column <= to.length; column++) {
      const differs = from[row - 1] === to[column - 1] ? 0 : 1
      let slips = Math.min(last[column]! + 1, current[column - 1]! + 1, last[column - 1]! + differs)
      if (row > 1 && column > 1 && from[row - 1] === to[column - 2] && from[row - 2] === to[column - 1]) {
        slips = Math.min(slips, beforeLast[column - 2]! + 1)
      }
      current.push(slips)
    }
    beforeLast = last
    last = current
  }
  return last[to.length]!
}
