import './paused-mark.css'

/** Beside the name of a lane or schedule that somebody has paused. */
export function PausedMark() {
  return (
    <span className="paused-mark">
      <svg viewBox="0 0 10 10" aria-hidden="true">
        <path d="M3 1v8M7 1v8" />
      </svg>
      Paused
    </span>
  )
}
