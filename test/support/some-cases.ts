/** `SLUICE_SEED` draws the same cases again in the same file; each file prints the seed that it used. */
const seed = Number(process.env.SLUICE_SEED ?? Math.floor(Math.random() * 2 ** 32))
let state = seed
let isPrinted = false

/**
 * Some of the cases, drawn by a seed: the suite has to end in time. All of them with `SLUICE_TEST_CASES=all`, which `npm run test:long`
 * sets.
 */
export function someCases<T>(cases: readonly T[], count: number): T[] {
  if (process.env.SLUICE_TEST_CASES === 'all') return [...cases]
  if (!isPrinted) console.info(`cases drawn with SLUICE_SEED=${seed}`)
  isPrinted = true
  const left = [...cases]
  while (left.length > count) left.splice(Math.floor(draw() * left.length), 1)
  return left
}

/** The next number from 0 to 1, by mulberry32. */
function draw(): number {
  state = (state + 0x6d2b79f5) | 0
  let mixed = Math.imul(state ^ (state >>> 15), state | 1)
  mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
  return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
}
