/** Ready jobs are counted exactly up to this number per task. It then means "at least this many". */
export const EXACT_DEPTH = 10_000

/** Numbers and lists of failures consider this many of the newest failures, which bounds the cost of a burst. */
export const COUNTED_FAILURES = 10_000

/** Both limits as shown in interfaces. */
export const DEPTH_WORDS = `exact up to ${withThousands(EXACT_DEPTH)} per task`
export const FAILURES_WORDS = `the newest ${withThousands(COUNTED_FAILURES)}`

function withThousands(number: number): string {
  return number.toLocaleString('en')
}
