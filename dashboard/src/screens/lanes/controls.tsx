import { useState } from 'react'
import type { Lane, SluiceClient } from '../../../../src/client/index.ts'
import { because, queries } from '../../connection.ts'
import { type Question, useAsk } from '../../parts/ask.tsx'
import { Button, Input } from '../../parts/controls.tsx'
import { type LaneStand, previewLane } from './preview.ts'

export interface ShownLane extends Lane {
  /** Jobs that could start and wait. */
  readonly depth: number
  readonly waitedMs: number
  readonly reason: string | null
}

/** Asks for confirmation before a lane changes, and then refreshes everything that shows lanes. */
export function useLaneQuestion(): (
  question: Omit<Question, 'run'> & { run: (voice: SluiceClient) => Promise<unknown>; done: string },
) => void {
  const ask = useAsk()
  return ({ run, done, ...question }) =>
    ask({
      ...question,
      run: async (reason) => {
        await run(because(reason))
        await queries.invalidateQueries({ queryKey: ['lanes'] })
        return done
      },
    })
}

function Effects({ words }: { words: readonly string[] }) {
  return words.map((each) => <p key={each}>{each}</p>)
}

/** The limit, changed where it stands. Empty: no limit. */
export function SlotsCell({ lane }: { lane: ShownLane }) {
  const given = lane.slots === null ? '' : String(lane.slots)
  const [typed, setTyped] = useState<string>()
  const ask = useLaneQuestion()
  const text = typed ?? given
  const wrong = !/^\d{0,9}$/.test(text.trim())
  const slots = text.trim() === '' ? null : Number(text)
  const changed = !wrong && slots !== lane.slots
  const propose = () => {
    if (!changed) return
    ask({
      title: `Change the slots of lane ${lane.name}`,
      effect: <Effects words={previewLane(lane, { slots })} />,
      action: slots === null ? 'Remove limit' : `Set to ${slots}`,
      run: (voice) => voice.setLane(lane.name, { slots }),
      done: `Lane ${lane.name} now has ${slots === null ? 'no limit' : `${slots} slots`}`,
    })
    setTyped(undefined)
  }
  return (
    <form
      className="slots"
      onSubmit={(event) => {
        event.preventDefault()
        propose()
      }}
    >
      <Input
        className="slots-input"
        inputMode="numeric"
        aria-label={`Slots of lane ${lane.name}; empty for no limit`}
        aria-invalid={wrong}
        placeholder="no limit"
        value={text}
        onChange={(event) => setTyped(event.target.value)}
        onKeyDown={(event) => event.key === 'Escape' && setTyped(undefined)}
      />
      {wrong && (
        <span className="slots-wrong" role="alert">
          Enter 0 or more, or leave empty for no limit
        </span>
      )}
      <Button type="submit" small kind="primary" disabled={!changed} data-idle={!changed || undefined}>
        Set…
      </Button>
    </form>
  )
}

/** Asks, and pauses a lane or resumes it. */
export function useSwitchLane(): (lane: LaneStand & { readonly name: string }) => void {
  const ask = useLaneQuestion()
  return (lane) => {
    const enabled = !lane.enabled
    ask({
      title: enabled ? `Resume lane ${lane.name}` : `Pause lane ${lane.name}`,
      effect: <Effects words={previewLane(lane, { enabled })} />,
      action: enabled ? 'Resume lane' : 'Pause lane',
      danger: !enabled,
      run: (voice) => voice.setLane(lane.name, { enabled }),
      done: enabled
        ? lane.slots === 0
          ? `Resumed lane ${lane.name}; with 0 slots no jobs start`
          : `Resumed lane ${lane.name}`
        : `Paused lane ${lane.name}: running jobs finish, no new jobs start`,
    })
  }
}

/** Pauses a lane, or resumes it. */
export function SwitchButton({ lane }: { lane: ShownLane }) {
  const toggle = useSwitchLane()
  return (
    <Button small kind={lane.enabled ? 'plain' : 'primary'} onClick={() => toggle(lane)}>
      {lane.enabled ? 'Pause…' : 'Resume…'}
    </Button>
  )
}
