const UNITS = ['byte', 'kilobyte', 'megabyte', 'gigabyte', 'terabyte'] as const

/** An amount of a budget: bytes in the unit that fits, anything else as a number. */
export function amountWords(amount: number, bytes: boolean): string {
  if (!bytes) return amount.toLocaleString(undefined, { maximumFractionDigits: 2 })
  const at = Math.min(UNITS.length - 1, amount < 1 ? 0 : Math.floor(Math.log10(amount) / 3))
  return new Intl.NumberFormat(undefined, {
    style: 'unit',
    unit: UNITS[at] ?? 'byte',
    unitDisplay: 'short',
    maximumFractionDigits: 1,
  }).format(amount / 1000 ** at)
}
