import { useLink } from '../live/page-stream.ts'
import { useNow } from '../parts/clock.ts'
import { durationWords } from '../parts/time.tsx'

/** Whether what is on the screen is up to date, and since when it is not. */
export function LinkState() {
  const { state, since } = useLink()
  // Drawn anew each second while it counts.
  useNow()
  // What has ended cannot become stale.
  if (state === 'idle' || state === 'over') return null
  const words = state === 'live' ? 'Live' : state === 'connecting' ? 'Connecting…' : 'Stale'
  const age = Math.max(0, Math.round((Date.now() - since) / 1000) * 1000)
  return (
    <span className="link-state" data-state={state} role={state === 'stale' ? 'alert' : 'status'}>
      <svg viewBox="0 0 12 12" aria-hidden="true">
        {state === 'live' ? <circle cx="6" cy="6" r="4" /> : <path d="M6 1 11.5 11H.5Z" />}
      </svg>
      <span>
        {words}
        {state === 'stale' && <span className="link-more">, reconnecting</span>}
      </span>
      {/* Told once to those who listen: it changes each second. */}
      {state === 'stale' && age > 0 && <span aria-hidden="true">for {durationWords(age)}</span>}
    </span>
  )
}
