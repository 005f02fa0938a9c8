import { Cron } from 'croner'
import { offsetAt, toInstant } from './time-zone.ts'

/**
 * Why a text is no cron expression that can be used, and what would be right; `undefined` when it is one.
 *
 * Five fields (minute, hour, day of month, month, day of week), six with seconds in front, or one of `@hourly`,
 * `@daily`, `@weekly`, `@monthly`, `@yearly`.
 */
export function cronProblem(text: unknown): string | undefined {
  if (typeof text !== 'string') return `must be a text such as "0 3 * * *"`
  if (text.length > 200) return 'must not be longer than 200 characters'
  const pattern = parts(text)
  // Longer ones have years, and other texts croner would take for a date.
  const nickname = pattern.length === 1 && text.trim().startsWith('@')
  if (!nickname && pattern.length !== 5 && pattern.length !== 6) {
    return `has ${pattern.length} fields; write five, such as "0 3 * * *" for every day at 3, or six with seconds in front`
  }
  try {
    new Cron(text.trim(), { paused: true, utcOffset: 0 })
    return nickname || hasDay(pattern) ? undefined : 'is a time that never comes; write a day that exists'
  } catch (error) {
    return `cannot be read: ${(error as Error).message.replace(/^CronPattern: /, '')}`
  }
}

const DAY_MS = 86_400_000

/** A year of each kind: the 28 years have every weekday as their first of January, in leap years and in others. */
const YEARS = kindsOfYears(2000, 2027)

/**
 * True when some day matches. Croner looks for the next tick through 400 years, which took up to 700 ms for a day that never comes;
 * the calendar has 14 kinds of years.
 *
 * @param fields Five or six, which croner has read.
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
 * The shortest time between two ticks of a cron expression, in milliseconds, where clocks do not change. Two of its days are taken to
 * follow each other, so an expression with times on both sides of midnight may have a longer one.
 *
 * @param cron One without a `cronProblem`.
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

/** The values of a field for seconds, minutes or hours, ascending: lists of numbers, ranges and steps. */
function valuesOf(field: string, size: number): number[] {
  const values = new Set<number>()
  for (const part of field.split(',')) {
    const [range, step] = part.split('/') as [string, string?]
    // Read as croner does, which takes "5*" for 5.
    const whole = (text: string) => Number.parseInt(text, 10)
    const [from, to] = /^[*?]$/.test(range) ? [0, size - 1] : range.split('-').map(whole)
    for (let value = from!; value <= (to ?? from!); value += whole(step ?? '1')) values.add(value)
  }
  return [...values].sort((a, b) => a - b)
}

/**
 * The ticks of a cron expression in a time zone.
 *
 * Where clocks are put forward or back there are two kinds of schedules. One that runs in every hour goes on with
 * elapsed time: no hour is left out and none is merged. One that names hours means times of day, and each of them
 * comes once: a time that a clock put forward jumps over comes at the end of the jump (several of them together, once),
 * and one that a clock put back shows twice comes at the first.
 *
 * Reads no clock. The rules of the time zones are those of the JavaScript engine.
 */
export class Ticks {
  readonly #timezone: string
  readonly #cron: Cron
  readonly #everyHour: boolean
  /** What was found lately: between the two times of each there is no tick. Planning one schedule without it took 1.4 to 2.6 ms, on a busy machine. */
  #gaps: { readonly after: number; readonly tick: number }[] = []

  /** @param cron One without a `cronProblem`. */
  constructor(cron: string, timezone: string) {
    this.#timezone = timezone
    this.#everyHour = coversEveryHour(cron)
    // Times of day are looked for in a zone whose clocks never change, then moved to where they belong. As an offset, UTC takes half as long.
    const zone = this.#everyHour && timezone !== 'UTC' ? { timezone } : { utcOffset: 0 }
    this.#cron = new Cron(cron.trim(), { paused: true, ...zone })
  }

  /** It runs in every hour, so it goes on with elapsed time when a clock is put back. One that names hours waits for the next time that is new. */
  get goesOnWhenSetBack(): boolean {
    return this.#everyHour
  }

  /** The first tick after that moment, both in milliseconds since 1970; `undefined` when there is none before the year 10000. */
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
      // Not so for the second showing of an hour.
      if (instant > after) return instant
    }
  }

  /** The ticks after `after` up to and with `until`, at most `limit`. */
  between(after: number, until: number, limit: number): number[] {
    const found: number[] = []
    for (let tick = this.next(after); tick !== undefined && tick <= until; tick = this.next(tick)) {
      found.push(tick)
      if (found.length === limit) break
    }
    return found
  }

  /** The last ticks after `after` up to and with `until`, at most `count`, oldest first. */
  last(count: number, after: number, until: number): number[] {
    if (count <= 0) return []
    // Looks further and further back, so that a long time with many ticks in it is not gone through from its beginning.
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
