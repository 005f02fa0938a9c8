/** About how long, in the two letters a table has room for: 850ms, 4.2s, 3m, 5h, 2d. */
export function roughly(ms: number): string {
  const positive = Math.max(0, ms)
  if (positive < 1000) return `${Math.round(positive)}ms`
  if (positive < 10_000) return `${(positive / 1000).toFixed(1)}s`
  if (positive < 120_000) return `${Math.round(positive / 1000)}s`
  if (positive < 7_200_000) return `${Math.round(positive / 60_000)}m`
  if (positive < 172_800_000) return `${Math.round(positive / 3_600_000)}h`
  return `${Math.round(positive / 86_400_000)}d`
}

/** `1 job`, `2 jobs`. */
export function count(number: number, noun: string): string {
  return `${number} ${noun}${number === 1 ? '' : 's'}`
}

export function bytes(size: number): string {
  const units = ['bytes', 'kB', 'MB', 'GB', 'TB']
  let value = size
  let unit = 0
  for (; value >= 1000 && unit < units.length - 1; unit++) value /= 1000
  return `${unit === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${units[unit]}`
}
