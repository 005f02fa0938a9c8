import { useLink } from '../live/page-stream.ts'
import { useNow } from '../parts/clock.ts'
import { durationWords } from '../parts/time.tsx'

/** Whether what is on the screen is up to date, and since when it is not. */
export function LinkState() {
  const { state, since } = useLink()
  // Drawn anew each second while it counts.
  useNow()
  if (state === 'idle') return null
  const words =
    state === 'live' || state === 'over'
      ? state === 'live'
        ? 'Live'
        : 'Complete'
      : state === 'connecting'
        ? 'Connecting …'
        : `Stale for ${durationWords(Math.max(0, Math.round((Date.now() - since) / 1000) * 1000))}, reconnecting`
  return (
    <span className="link-state" data-state={state} role={state === 'stale' ? 'alert' : 'status'}>
      <svg viewBox="0 0 12 12" aria-hidden="true">
        {state === 'live' || state === 'over' ? (
          <circle cx="6" cy="6" r="4" />
        ) : (
          <path d="M6 1 11.5 11H.5Z" />
        )}
      </svg>
      {words}
    </span>
  )
}
