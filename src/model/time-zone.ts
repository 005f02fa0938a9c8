const formats = new Map<string, Intl.DateTimeFormat>()

/** True for the name of a time zone of the IANA database, such as Europe/Berlin, and for UTC. */
export function isTimeZone(name: string): boolean {
  // Offsets such as +02:00 are supported only by newer engines and do not follow clock changes.
  if (!/^[A-Za-z][A-Za-z0-9_+/-]*$/.test(name)) return false
  try {
    formatOf(name)
    return true
  } catch {
    return false
  }
}

/** How far a zone is ahead of UTC at a given time, in milliseconds. Exact to the second. */
export function offsetAt(instant: number, timezone: string): number {
  if (timezone === 'UTC') return 0
  const fields: Record<string, number> = {}
  for (const { type, value } of formatOf(timezone).formatToParts(instant)) fields[type] = Number(value)
  const { year, month, day, hour, minute, second } = fields
  return Date.UTC(year!, month! - 1, day!, hour!, minute!, second!) - Math.floor(instant / 1000) * 1000
}

/**
 * Converts a local time to an instant. For a time that occurs twice, the first; for a skipped time, the end of the
 * gap.
 *
 * @param wall The local time as milliseconds since 1970, as if it were UTC. Whole seconds.
 */
export function toInstant(wall: number, timezone: string): number {
  const before = offsetAt(wall - DAY_MS, timezone)
  const after = offsetAt(wall + DAY_MS, timezone)
  const early = wall - Math.max(before, after)
  const late = wall - Math.min(before, after)
  if (shows(early, wall, timezone)) return early
  if (early === late || shows(late, wall, timezone)) return late
  return endOfJump(early, late, timezone)
}

const DAY_MS = 86_400_000

function shows(instant: number, wall: number, timezone: string): boolean {
  return instant + offsetAt(instant, timezone) === wall
}

/** The second in which the clocks change between two times. */
function endOfJump(from: number, to: number, timezone: string): number {
  const old = offsetAt(from, timezone)
  let low = from
  let high = to
  while (high - low > 1000) {
    const middle = Math.floor((low + high) / 2000) * 1000
    if (offsetAt(middle, timezone) === old) low = middle
    else high = middle
  }
  return high
}

/** Creating a formatter takes a hundred times as long as using it. */
function formatOf(timezone: string): Intl.DateTimeFormat {
  let format = formats.get(timezone)
  if (format === undefined) {
    format = new Intl.DateTimeFormat('en-US', {
      timeZone: timezone,
      calendar: 'gregory',
      numberingSystem: 'latn',
      hourCycle: 'h23',
      year: 'numeric',
      month: 'numeric',
      day: 'numeric',
      hour: 'numeric',
      minute: 'numeric',
      second: 'numeric',
    })
    formats.set(timezone, format)
  }
  return format
}
