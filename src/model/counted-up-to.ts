/** Jobs that could start are counted up to here in each task; this number means "at least that many". */
export const EXACT_DEPTH = 10_000

/** The newest failures that numbers and lines of failures look at: a storm of them costs no more than that. */
export const COUNTED_FAILURES = 10_000

/** Both as the texts of the interface have them. */
export const DEPTH_WORDS = `exact up to ${inWords(EXACT_DEPTH)} per task`
export const FAILURES_WORDS = `the newest ${inWords(COUNTED_FAILURES)}`

function inWords(number: number): string {
  return number.toLocaleString('en')
}
