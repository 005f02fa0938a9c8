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
    const first = new Cron(text.trim(), { paused: true, utcOffset: 0 }).nextRun(new Date(0))
    return first === null ? 'is a time that never comes; write a day that exists' : undefined
  } catch (error) {
    return `cannot be read: ${(error as Error).message.replace(/^CronPattern: /, '')}`
  }
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
