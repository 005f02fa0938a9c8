import { useNow } from './clock.ts'

const EXACT = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'long' })
const CLOCK = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit', second: '2-digit' })
const DAY = new Intl.DateTimeFormat(undefined, {
  month: 'short',
  day: 'numeric',
  hour: '2-digit',
  minute: '2-digit',
})
const SECONDS = new Intl.NumberFormat(undefined, { maximumFractionDigits: 1 })

const UNITS = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['m', 60_000],
  ['s', 1000],
] as const

/** `250 ms`, `1.4 s`, `3 m 12 s`, `2 h 5 m`: the two largest units. */
export function durationWords(ms: number): string {
  if (!Number.isFinite(ms)) return '–'
  const whole = Math.max(0, Math.round(ms))
  if (whole < 1000) return `${whole} ms`
  if (whole < 10_000) return `${SECONDS.format(whole / 1000)} s`
  const at = UNITS.findIndex(([, size]) => whole >= size)
  const [name, size] = UNITS[at] ?? UNITS[3]
  const next = UNITS[at + 1]
  const first = `${Math.floor(whole / size)} ${name}`
  const rest = next === undefined ? 0 : Math.floor((whole % size) / next[1])
  return next === undefined || rest === 0 ? first : `${first} ${rest} ${next[0]}`
}

/** As a config file has it, exact: `2s`, `90s`, `1500ms`. */
export function durationText(ms: number): string {
  const [name, size] = UNITS.find(([, each]) => ms >= each && ms % each === 0) ?? (['ms', 1] as const)
  return `${ms / size}${name}`
}

/** How long something took or waits. */
export function Duration({ ms }: { ms: number | null | undefined }) {
  if (ms === null || ms === undefined) return <span className="soft">–</span>
  return <span title={`${ms.toLocaleString()} ms`}>{durationWords(ms)}</span>
}

/** How long ago, or in how long, kept up to date; the exact local time on hover, and both for screen readers. */
export function Ago({ at }: { at: Date | null | undefined }) {
  const now = useNow()
  if (at === null || at === undefined) return <span className="soft">–</span>
  const ms = now - at.getTime()
  const words =
    ms < -1000 ? `in ${durationWords(roundly(-ms))}` : ms < 1000 ? 'now' : `${aboutWords(roundly(ms))} ago`
  return (
    <time dateTime={at.toISOString()} title={`${EXACT.format(at)}\n${at.toISOString()}`}>
      {words}
    </time>
  )
}

/** A moment in the local zone; today without the date. The exact one on hover. */
export function Moment({ at }: { at: Date | null | undefined }) {
  const now = useNow()
  if (at === null || at === undefined) return <span className="soft">–</span>
  const today = new Date(now).toDateString() === at.toDateString()
  return (
    <time dateTime={at.toISOString()} title={`${EXACT.format(at)}\n${at.toISOString()}`}>
      {(today ? CLOCK : DAY).format(at)}
    </time>
  )
}

/** How long something has gone on that has not ended. */
export function Since({ at }: { at: Date | null | undefined }) {
  const now = useNow()
  return <Duration ms={at === null || at === undefined ? null : roundly(now - at.getTime())} />
}

/** How long something took, or has gone on so far; a dash before it began. */
export function Took({ startedAt, finishedAt }: { startedAt: Date | null; finishedAt: Date | null }) {
  if (startedAt === null) return <span className="soft">–</span>
  if (finishedAt === null) return <Since at={startedAt} />
  return <Duration ms={finishedAt.getTime() - startedAt.getTime()} />
}

/** Ages change once a second: tenths would only flicker. */
function roundly(ms: number): number {
  return Math.max(0, Math.round(ms / 1000) * 1000)
}

/** How long ago needs no second unit from a minute on: `3 m ago`. */
function aboutWords(ms: number): string {
  const size = UNITS.find(([, each]) => ms >= each)?.[1] ?? 1000
  return durationWords(Math.floor(ms / size) * size)
}
