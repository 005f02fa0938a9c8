import { type KeyboardEvent, useRef } from 'react'
import { StateBadge } from '../../parts/state-badge.tsx'
import { kindWord, type Level, levelName } from './level-name.ts'

/** The way back: the failure at the top, the root at the bottom. Arrow keys go from level to level. */
export function LevelList({
  levels,
  suspect,
  at,
  onGo,
}: {
  levels: readonly Level[]
  suspect: string | null
  at: number
  onGo: (at: number) => void
}) {
  const box = useRef<HTMLDivElement>(null)
  const pressed = (event: KeyboardEvent) => {
    const moves: Readonly<Record<string, number>> = {
      ArrowDown: at + 1,
      ArrowUp: at - 1,
      Home: 0,
      End: levels.length - 1,
    }
    const next = Object.hasOwn(moves, event.key) ? moves[event.key] : undefined
    if (next === undefined) return
    event.preventDefault()
    if (next < 0 || next >= levels.length) return
    onGo(next)
    box.current?.querySelectorAll<HTMLElement>('[role="tab"]')[next]?.focus()
  }
  return (
    <div
      className="levels"
      role="tablist"
      aria-orientation="vertical"
      aria-label="From the failure back to the root"
      ref={box}
      onKeyDown={pressed}
    >
      {levels.map((level, place) => (
        <button
          key={level.id}
          type="button"
          role="tab"
          id={`level-${level.id}`}
          aria-selected={place === at}
          aria-controls="level"
          tabIndex={place === at ? 0 : -1}
          className="level"
          data-suspect={level.id === suspect || undefined}
          onClick={() => onGo(place)}
        >
          <span className="level-line">
            <StateBadge state={level.status} quiet />
            <span className="level-name">{levelName(level, levels[place + 1])}</span>
          </span>
          <span className="level-about">
            {kindWord(level)} #{level.id}
            {(level.comparison?.differences.length ?? 0) > 0 && (
              <strong className="level-mark"> input differs</strong>
            )}
          </span>
        </button>
      ))}
    </div>
  )
}
