import { useMutation } from '@tanstack/react-query'
import { type KeyboardEvent, type PointerEvent, useEffect, useRef, useState } from 'react'
import { client, queries } from '../../connection.ts'
import { Button, Field, Input } from '../../parts/controls.tsx'
import { count } from '../../parts/count.ts'
import { Problem } from '../../parts/problem.tsx'
import { hasEnded } from '../../parts/state-badge.tsx'
import type { GraphNode } from './use-workflow.ts'
import { nextSize, scaleOf } from './window-scale.ts'

/** A handle that is moved on and on sends where it rests, not every place it passes. */
const REST_MS = 350
/** More cells than that are a bar. */
const MOST_CELLS = 100

/**
 * The window of a fan-out, drawn as one: a frame over as many places as it has, filled as far as children are in flight. Its
 * right edge is a handle: moved by pointer or arrow keys, it resizes the window while the fan-out runs.
 */
export function WindowControl({ job, mayResize }: { job: GraphNode; mayResize: boolean }) {
  const { counts } = job
  if (counts === undefined) return <p className="soft">Not started yet: no window.</p>
  if (counts.window === null)
    return (
      <p className="soft">
        No window: {count(counts.inFlight, 'child is', 'children are')} in flight. Only the lanes of their
        tasks limit them.
      </p>
    )
  return <Resizable job={job} counts={counts} window={counts.window} movable={mayResize && !hasEnded(job)} />
}

function Resizable({
  job,
  counts: { inFlight, total, resumesAt },
  window,
  movable,
}: {
  job: GraphNode
  counts: NonNullable<GraphNode['counts']>
  window: number
  movable: boolean
}) {
  const { draft, move, settle, error } = useResize(job.id, window)
  const shown = draft ?? window
  const [held, setHeld] = useState<number>()
  const scale = held ?? scaleOf(Math.max(window, inFlight), total)
  const track = useRef<HTMLDivElement>(null)
  const at = (event: PointerEvent) => {
    const { left, width } = track.current!.getBoundingClientRect()
    return Math.max(0, Math.min(scale, Math.round(((event.clientX - left) / width) * scale)))
  }
  const grab = (event: PointerEvent<HTMLDivElement>) => {
    event.currentTarget.setPointerCapture(event.pointerId)
    setHeld(scale)
  }
  const drag = (event: PointerEvent<HTMLDivElement>) => {
    if (event.currentTarget.hasPointerCapture(event.pointerId)) move(at(event))
  }
  const letGo = () => {
    setHeld(undefined)
    settle()
  }
  const pressed = (event: KeyboardEvent) => {
    const next = nextSize(event.key, shown, scale)
    if (next === undefined) return
    event.preventDefault()
    move(next)
  }
  const over = Math.max(0, inFlight - shown)
  return (
    <div className="window">
      <p className="window-words">
        {shown === 0 ? (
          <>
            <strong>Paused</strong>: {count(inFlight, 'child', 'children')} in flight, no other child starts
          </>
        ) : (
          <>
            <strong>{inFlight.toLocaleString()}</strong> in flight, window of{' '}
            <strong>{shown.toLocaleString()}</strong>
          </>
        )}
        {over > 0 && shown > 0 && (
          <span>; {over.toLocaleString()} over the window, which finish without being replaced</span>
        )}
      </p>
      <div className="window-track" ref={track} data-cells={scale <= MOST_CELLS || undefined}>
        {scale <= MOST_CELLS && (
          <div
            className="window-cells"
            aria-hidden="true"
            style={{ backgroundSize: `${100 / scale}% 100%` }}
          />
        )}
        <div className="window-fill" style={{ width: `${(Math.min(inFlight, shown) / scale) * 100}%` }} />
        {over > 0 && (
          <div
            className="window-over"
            style={{ left: `${(shown / scale) * 100}%`, width: `${(over / scale) * 100}%` }}
          />
        )}
        <div className="window-frame" style={{ width: `${(shown / scale) * 100}%` }} />
        {movable && (
          <div
            className="window-handle"
            role="slider"
            tabIndex={0}
            aria-label="Window"
            aria-valuemin={0}
            aria-valuemax={Math.max(scale, shown)}
            aria-valuenow={shown}
            aria-valuetext={`${shown} children at a time, ${inFlight} in flight`}
            style={{ left: `${(Math.min(shown, scale) / scale) * 100}%` }}
            onPointerDown={grab}
            onPointerMove={drag}
            onPointerUp={letGo}
            onPointerCancel={letGo}
            onKeyDown={pressed}
            onBlur={settle}
          />
        )}
      </div>
      <div className="window-scale" aria-hidden="true">
        <span>0</span>
        <span>{scale.toLocaleString()}</span>
      </div>
      {movable && <ExactSize window={window} resumesAt={resumesAt} onSet={(size) => move(size, true)} />}
      <Problem error={error} />
    </div>
  )
}

/** The size that somebody wants, sent once it rests; the latest wins. */
function useResize(id: string, window: number) {
  const [draft, setDraft] = useState<number>()
  const wanted = useRef<number>(undefined)
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined)
  const { mutate, error } = useMutation({
    // One after the other: two that race could end in either order.
    scope: { id: `window ${id}` },
    mutationFn: (size: number) => client.resizeWindow(id, size),
    onSettled: async (_, failure) => {
      await queries.invalidateQueries({ queryKey: ['workflow'] })
      if (failure !== null) setDraft(undefined)
    },
  })
  useEffect(() => {
    // What was asked for has arrived.
    if (draft === window) setDraft(undefined)
  }, [draft, window])
  useEffect(() => () => clearTimeout(timer.current), [])
  const settle = () => {
    clearTimeout(timer.current)
    const size = wanted.current
    wanted.current = undefined
    if (size !== undefined) mutate(size)
  }
  const move = (size: number, atOnce = false) => {
    wanted.current = size
    setDraft(size)
    clearTimeout(timer.current)
    if (atOnce) settle()
    else timer.current = setTimeout(settle, REST_MS)
  }
  return { draft, move, settle, error }
}

/** For sizes beyond the scale, and for who would rather type. */
function ExactSize({
  window,
  resumesAt,
  onSet,
}: {
  window: number
  resumesAt: number | undefined
  onSet: (size: number) => void
}) {
  const [text, setText] = useState('')
  const wrong = text === '' || /^\d{1,9}$/.test(text) ? undefined : 'Enter 0 or more'
  return (
    <form
      className="window-exact"
      onSubmit={(event) => {
        event.preventDefault()
        if (text === '' || wrong !== undefined) return
        onSet(Number(text))
        setText('')
      }}
    >
      <Field label="Window" error={wrong}>
        <Input
          inputMode="numeric"
          placeholder={String(window)}
          value={text}
          onChange={(event) => setText(event.target.value.trim())}
        />
      </Field>
      <Button type="submit" disabled={text === '' || wrong !== undefined}>
        Resize
      </Button>
      {window === 0 ? (
        <Button onClick={() => onSet(resumesAt ?? 1)}>Resume with {resumesAt ?? 1}</Button>
      ) : (
        <Button onClick={() => onSet(0)}>Pause</Button>
      )}
    </form>
  )
}
