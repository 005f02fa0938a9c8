import { SluiceError } from '../errors.ts'
import { show } from './argument.ts'

/** A length of time: milliseconds as a number, or text such as `250ms`, `15s`, `10m`, `4h`, `7d`. */
export type Duration = number | string

const UNIT_MS: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 }

/**
 * Converts a duration to milliseconds. Compound texts such as `1h30m` are summed.
 *
 * @param where Names the setting in the error, for example `lanes.interactive.poll`.
 * @throws {SluiceError} `INVALID_ARGUMENT` when it is not a duration, is negative or is not finite.
 */
export function parseDuration(value: Duration, where: string): number {
  const ms = typeof value === 'number' ? value : typeof value === 'string' ? parseText(value) : undefined
  if (ms === undefined || !Number.isFinite(ms) || ms < 0) {
    throw new SluiceError(
      'INVALID_ARGUMENT',
      `${where}: ${show(value)} is not a duration; write milliseconds or text such as 250ms, 15s, 10m, 4h, 7d`,
      { details: { where } },
    )
  }
  return ms
}

function parseText(text: string): number | undefined {
  let rest = text.trim()
  if (rest === '') return undefined
  let total = 0
  while (rest !== '') {
    const match = /^(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)\s*/.exec(rest)
    if (match === null) return undefined
    total += Number(match[1]) * UNIT_MS[match[2]!]!
    rest = rest.slice(match[0].length)
  }
  return total
}

/** Returns the shortest exact text: `90_000` becomes `1m30s`. */
export function formatDuration(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)}ms`
  let rest = Math.round(ms)
  let text = ''
  for (const [unit, size] of [
    ['d', 86_400_000],
    ['h', 3_600_000],
    ['m', 60_000],
    ['s', 1000],
    ['ms', 1],
  ] as const) {
    const count = Math.floor(rest / size)
    if (count > 0) text += `${count}${unit}`
    rest -= count * size
  }
  return text
}
