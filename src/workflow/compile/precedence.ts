import { inOrder } from '../plan.ts'

/** Which steps of a body end before which others start. */
export class Precedence {
  readonly #before: readonly (Uint32Array | undefined)[]

  /** @param needs For each position the positions it needs. */
  constructor(needs: readonly (readonly number[])[]) {
    const before: (Uint32Array | undefined)[] = needs.map(() => undefined)
    const words = Math.ceil(needs.length / 32)
    // One bit for each pair: 12.5 MB for the 10,000 steps a workflow may have.
    for (const position of inOrder(needs)) {
      const bits = new Uint32Array(words)
      for (const need of needs[position]!) {
        bits[need >>> 5]! |= 1 << (need & 31)
        const earlier = before[need]!
        for (let word = 0; word < words; word++) bits[word]! |= earlier[word]!
      }
      before[position] = bits
    }
    this.#before = before
  }

  /** False for a step in a cycle or behind one: nothing can be said of what precedes it. */
  isKnown(position: number): boolean {
    return this.#before[position] !== undefined
  }

  /** Whether `first` has ended when `later` starts. */
  precedes(first: number, later: number): boolean {
    return ((this.#before[later]?.[first >>> 5] ?? 0) & (1 << (first & 31))) !== 0
  }
}

/**
 * Cycles, each as the positions along it. Empty when there is none; where cycles cross, one of them.
 *
 * @param needs For each position the positions it needs.
 */
export function findCycles(needs: readonly (readonly number[])[]): number[][] {
  const left = new Set(needs.keys())
  for (const position of inOrder(needs)) left.delete(position)
  const cycles: number[][] = []
  const walked = new Set<number>()
  for (const start of left) {
    const walk = new Set<number>()
    let position = start
    // Each position that is left needs another one that is left, so the walk ends where it has been.
    while (!walked.has(position)) {
      walked.add(position)
      walk.add(position)
      position = needs[position]!.find((need) => left.has(need))!
    }
    if (!walk.has(position)) continue
    const path = [...walk]
    cycles.push(path.slice(path.indexOf(position)))
  }
  return cycles
}
