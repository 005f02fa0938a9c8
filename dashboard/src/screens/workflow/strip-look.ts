import type { Strip } from '../../../../src/client/index.ts'

type Bucket = Strip['buckets'][number]

/** From the top down: what matters most is at the top of a column, where it is seen even when it is little. */
const LAYERS = [
  ['failed', 'var(--failed)'],
  ['running', 'var(--running)'],
  ['queued', 'var(--retrying)'],
  ['cancelled', 'var(--ended)'],
  ['skipped', 'var(--ended)'],
  ['completed', 'var(--strip-completed)'],
  ['waiting', 'var(--strip-waiting)'],
] as const

/** How children of a fan-out stand: what matters most first. */
export const STRIP_STATES = LAYERS.map(([state]) => state)

/** One failure among a thousand still gets this share of its column. */
const LEAST = 0.18

/** The background of a column: a layer for each state, as high as its share. */
export function columnOf(bucket: Bucket): string {
  const size = Math.max(1, bucket.to - bucket.from + 1)
  const layers = LAYERS.flatMap(([state, colour]) => {
    const share = bucket[state] / size
    return share === 0 ? [] : [{ colour, share: Math.max(share, state === 'completed' ? 0 : LEAST) }]
  })
  const whole = layers.reduce((sum, { share }) => sum + share, 0)
  let at = 0
  const stops = layers.map(({ colour, share }) => {
    const from = at
    at += (share / whole) * 100
    return `${colour} ${from.toFixed(1)}% ${at.toFixed(1)}%`
  })
  return stops.length === 0 ? 'var(--strip-waiting)' : `linear-gradient(${stops.join(', ')})`
}

/** `500 to 999: 2 failed, 498 completed`. */
export function bucketWords(bucket: Bucket): string {
  const { from, to } = bucket
  const place =
    from === to ? `${from.toLocaleString()}` : `${from.toLocaleString()} to ${to.toLocaleString()}`
  const parts = LAYERS.flatMap(([state]) =>
    bucket[state] === 0 ? [] : [`${bucket[state].toLocaleString()} ${state}`],
  )
  return `${place}: ${parts.join(', ')}`
}

/** From the first column with a child in flight to the last. */
export function windowStretch(buckets: readonly Bucket[]): { first: number; last: number } | undefined {
  const flies = ({ running, queued }: Bucket) => running + queued > 0
  const first = buckets.findIndex(flies)
  return first < 0 ? undefined : { first, last: buckets.findLastIndex(flies) }
}
