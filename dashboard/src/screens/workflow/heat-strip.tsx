import { type KeyboardEvent, type MouseEvent, useState } from 'react'
import type { Strip } from '../../../../src/client/index.ts'
import { bucketWords, columnOf, windowStretch } from './strip-look.ts'

/**
 * A fan-out of any size as a strip: a column for each stretch of places, filled by how its children stand. Above it a bracket
 * where children are in flight. A click, or arrow keys and Enter, choose a stretch.
 */
export function HeatStrip({
  strip,
  chosen,
  onChoose,
}: {
  strip: Strip
  /** The first place of the chosen stretch. */
  chosen: number | undefined
  onChoose: (from: number | undefined) => void
}) {
  const { buckets } = strip
  const [cursor, setCursor] = useState<number>()
  const last = buckets.length - 1
  const at = Math.min(cursor ?? buckets.findIndex(({ from }) => from === chosen), last)
  const bucket = buckets[at]
  const pressed = (event: KeyboardEvent) => {
    const large = Math.max(1, Math.round(buckets.length / 10))
    const moves: Readonly<Record<string, number>> = {
      ArrowRight: at + 1,
      ArrowLeft: at - 1,
      PageDown: at + large,
      PageUp: at - large,
      Home: 0,
      End: last,
    }
    if (event.key === 'Enter' || event.key === ' ') onChoose(bucket?.from)
    else if (event.key === 'Escape') onChoose(undefined)
    else if (Object.hasOwn(moves, event.key)) setCursor(Math.max(0, Math.min(last, moves[event.key]!)))
    else return
    event.preventDefault()
  }
  const placeOf = (event: MouseEvent<HTMLElement>) => {
    const { left, width } = event.currentTarget.getBoundingClientRect()
    return Math.max(0, Math.min(last, Math.floor(((event.clientX - left) / width) * buckets.length)))
  }
  const stretch = windowStretch(buckets)
  return (
    <div className="strip">
      <div className="strip-window" aria-hidden="true">
        {stretch !== undefined && (
          <span
            style={{
              left: `${(stretch.first / buckets.length) * 100}%`,
              width: `${((stretch.last - stretch.first + 1) / buckets.length) * 100}%`,
            }}
          />
        )}
      </div>
      <div
        className="strip-columns"
        role="slider"
        tabIndex={0}
        aria-label="Children by index"
        aria-valuemin={0}
        aria-valuemax={Math.max(0, strip.total - 1)}
        aria-valuenow={bucket?.from ?? 0}
        aria-valuetext={bucket === undefined ? 'none selected' : bucketWords(bucket)}
        onKeyDown={pressed}
        onBlur={() => setCursor(undefined)}
        onPointerLeave={() => setCursor(undefined)}
        onPointerMove={(event) => setCursor(placeOf(event))}
        onClick={(event) => {
          const from = buckets[placeOf(event)]?.from
          onChoose(from === chosen ? undefined : from)
        }}
      >
        {buckets.map((each, place) => (
          <span
            key={each.from}
            data-at={place === at || undefined}
            data-chosen={each.from === chosen || undefined}
            style={{ background: columnOf(each) }}
          />
        ))}
      </div>
      <div className="strip-foot">
        <span>{bucket === undefined ? '0' : bucketWords(bucket)}</span>
        <span>{strip.total.toLocaleString()}</span>
      </div>
    </div>
  )
}
