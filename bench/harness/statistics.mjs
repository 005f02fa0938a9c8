/** Nearest-rank percentile, `p` from 0 to 1. `null` for no values. */
export function percentile(values, p) {
  if (values.length === 0) return null
  const sorted = Float64Array.from(values).sort()
  return sorted[Math.min(sorted.length - 1, Math.max(0, Math.ceil(p * sorted.length) - 1))]
}

/** The middle value, or the mean of the two middle ones. `null` for no values. */
export function median(values) {
  if (values.length === 0) return null
  const sorted = Float64Array.from(values).sort()
  const middle = sorted.length >> 1
  return sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2
}

/** Median, smallest and largest of the values that are numbers. */
export function summarise(values) {
  const numbers = values.filter((value) => typeof value === 'number' && Number.isFinite(value))
  if (numbers.length === 0) return null
  return {
    median: median(numbers),
    min: Math.min(...numbers),
    max: Math.max(...numbers),
    runs: numbers.length,
  }
}
