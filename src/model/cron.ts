import { Cron } from 'croner'
import { offsetAt, toInstant } from './time-zone.ts'

/**
 * Explains why a text is not a usable cron expression and what would be correct. Returns `undefined` for a valid one.
 *
 * Accepts five fields (minute, hour, day of month, month, day of week), six with seconds in front, or one of
 * `@hourly`,
 * `@daily`, `@weekly`, `@monthly`, `@yearly`.
 */
export function cronProblem(text: unknown): string | undefined {
  if (typeof text !== 'string') return `must be a text such as "0 3 * * *"`
  if (text.length > 200) return 'must not be longer than 200 characters'
  const pattern = parts(text)
  // More fields include years, and croner reads other texts as dates.
  const nickname = pattern.length === 1 && text.trim().startsWith('@')
  if (!nickname && pattern.length !== 5 && pattern.length !== 6) {
    return `has ${pattern.length} fields; write five, such as "0 3 * * *" for every day at 3, or six with seconds in front`
  }
  try {
    new Cron(text.trim(), { paused: true, utcOffset: 0 })
    return nickname || hasDay(pattern) ? undefined : 'never occurs; write a day that exists'
  } catch (error) {
    return `cannot be read: ${(error as Error).message.replace(/^CronPattern: /, '')}`
  }
}

const DAY_MS = 86_400_000

/** One year of each kind: these 28 years start on every weekday, as leap years and as others. */
const YEARS = kindsOfYears(2000, 2027)

/**
 * True when some day matches. Croner searches 400 years for the next tick, which took up to 700 ms for a day that
 * never comes. The calendar has only 14 kinds of years.
 *
 * @param fields Five or six fields that croner has parsed.
 */
function hasDay(fields: readonly string[]): boolean {
  const [day, month, weekday] = fields.slice(-3)
  const options = { paused: true, utcOffset: 0 }
  const days = new Cron(`0 0 0 ${day} ${month} ${weekday}`, options)
  const months = new Cron(`0 0 0 1 ${month} *`, options)
  for (let at = 0; at < 12; at++) {
    if (!months.match(new Date(Date.UTC(2000, at, 1)))) continue
    for (const year of YEARS) {
      const end = Date.UTC(year, at + 1, 1)
      for (let time = Date.UTC(year, at, 1); time < end; time += DAY_MS)
        if (days.match(new Date(time))) return true
    }
  }
  return false
}

function kindsOfYears(first: number, last: number): readonly number[] {
  const kinds = new Map<string, number>()
  for (let year = first; year <= last; year++) {
    const start = Date.UTC(year, 0, 1)
    kinds.set(`${new Date(start).getUTCDay()} ${Date.UTC(year + 1, 0, 1) - start}`, year)
  }
  return [...kinds.values()]
}

const SECONDS_OF = { minute: 60, hour: 3600, day: 86_400 } as const

/**
 * The shortest time between two ticks of a cron expression, in milliseconds, ignoring clock changes. It treats any two
 * days as consecutive, so the interval of an expression with times on both sides of midnight may be longer.
 *
 * @param cron An expression without a `cronProblem`.
 */
export function shortestInterval(cron: string): number {
  const fields = parts(cron)
  if (fields.length === 1) return (/^@hourly$/i.test(fields[0]!) ? SECONDS_OF.hour : SECONDS_OF.day) * 1000
  const [second, minute, hour] = (fields.length === 5 ? ['0', ...fields] : fields) as [string, string, string]
  let span = 0
  let shortest = Number.POSITIVE_INFINITY
  for (const [field, size, unit] of [
    [second, 60, 1],
    [minute, 60, SECONDS_OF.minute],
    [hour, 24, SECONDS_OF.hour],
  ] as const) {
    const values = valuesOf(field, size)
    for (let at = 1; at < values.length; at++)
      shortest = Math.min(shortest, (values[at]! - values[at - 1]!) * unit - span)
    span += (values.at(-1)! - values[0]!) * unit
  }
  return Math.min(shortest, SECONDS_OF.day - span) * 1000
}

/** The values of a field for seconds, minutes or hours, ascending, from lists of numbers, ranges and steps. */
function valuesOf(field: string, size: number): number[] {
  const values = new Set<number>()
  for (const part of field.split(',')) {
    const [range, step] = part.split('/') as [string, string?]
    // Parses like croner, which reads "5*" as 5.
    const whole = (text: string) => Number.parseInt(text, 10)
    const [from, to] = /^[*?]$/.test(range) ? [0, size - 1] : range.split('-').map(whole)
    for (let value = from!; value <= (to ?? from!); value += whole(step ?? '1')) values.add(value)
  }
  return [...values].sort((a, b) => a - b)
}

/**
 * The ticks of a cron expression in a time zone.
 *
 * Where clocks change, there are two kinds of schedules. A schedule that runs every hour follows elapsed time: no hour
 * is skipped and none is merged. A schedule that names hours means times of day, and each of them occurs once: a time
 * that the clocks skip occurs at the end of the gap (several skipped times, once), and a time that occurs twice counts
 * at its first occurrence.
 *
 * Reads no clock. The time zone rules are those of the JavaScript engine.
 */
export class Ticks {
  readonly #timezone: string
  readonly #cron: Cron
  readonly #everyHour: boolean
  /**
   * Recent results: there is no tick between the two times of an entry. Without this cache, planning one schedule took
   * 1.4 to 2.6 ms on a busy machine.
   */
  #gaps: { readonly after: number; readonly tick: number }[] = []

  /** @param cron An expression without a `cronProblem`. */
  constructor(cron: string, timezone: string) {
    this.#timezone = timezone
    this.#everyHour = coversEveryHour(cron)
    // Times of day are computed in a zone without clock changes, then converted. UTC as an offset takes half as long.
    const zone = this.#everyHour && timezone !== 'UTC' ? { timezone } : { utcOffset: 0 }
    this.#cron = new Cron(cron.trim(), { paused: true, ...zone })
  }

  /**
   * True for a schedule that runs every hour: it follows elapsed time when clocks are set back. A schedule that names
   * hours waits for the next new time.
   */
  get goesOnWhenSetBack(): boolean {
    return this.#everyHour
  }

  /**
   * The first tick after a time, both in milliseconds since 1970. `undefined` if there is none before the year 10000.
   */
  next(after: number): number | undefined {
    const known = this.#gaps.find((gap) => after >= gap.after && after < gap.tick)
    if (known !== undefined) return known.tick
    const tick = this.#find(after)
    if (tick !== undefined) this.#gaps = [{ after, tick }, ...this.#gaps.slice(0, 3)]
    return tick
  }

  #find(after: number): number | undefined {
    if (this.#everyHour) return this.#cron.nextRun(new Date(after))?.getTime()
    let wall = after + offsetAt(after, this.#timezone)
    for (;;) {
      const found = this.#cron.nextRun(new Date(wall))
      if (found === null) return undefined
      wall = found.getTime()
      const instant = toInstant(wall, this.#timezone)
      // Skips the second occurrence of an hour.
      if (instant > after) return instant
    }
  }

  /** The ticks in (`after`, `until`], at most `limit`. */
  between(after: number, until: number, limit: number): number[] {
    const found: number[] = []
    for (let tick = this.next(after); tick !== undefined && tick <= until; tick = this.next(tick)) {
      found.push(tick)
      if (found.length === limit) break
    }
    return found
  }

  /** The last ticks in (`after`, `until`], at most `count`, oldest first. */
  last(count: number, after: number, until: number): number[] {
    if (count <= 0) return []
    // Searches backwards in growing spans, so that a long time with many ticks is not read from its start.
    for (let span = 60_000; ; span *= 4) {
      const from = Math.max(after, until - span)
      const found = this.between(from, until, Number.POSITIVE_INFINITY)
      if (found.length >= count || from === after) return found.slice(-count)
    }
  }
}

function parts(text: string): string[] {
  return text.trim().split(/\s+/)
}

function coversEveryHour(cron: string): boolean {
  const fields = parts(cron)
  if (fields.length === 1) return /^@hourly$/i.test(fields[0]!)
  return /^(\*(\/1)?|\?|0-23)$/.test(fields[fields.length - 4]!)
}
