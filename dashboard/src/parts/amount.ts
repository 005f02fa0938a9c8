const UNITS = ['', 'KB', 'MB', 'GB', 'TB'] as const

/** An amount of a budget: bytes as settings and the server's sentences write them, where 1GB is 1024 MB; anything else as a number. */
export function amountWords(amount: number, bytes: boolean): string {
  if (!bytes) return amount.toLocaleString(undefined, { maximumFractionDigits: 2 })
  const at = Math.max(
    0,
    UNITS.findLastIndex((_, power) => amount >= 1024 ** power),
  )
  return `${(amount / 1024 ** at).toLocaleString(undefined, { maximumFractionDigits: 1 })}${UNITS[at]}`
}
