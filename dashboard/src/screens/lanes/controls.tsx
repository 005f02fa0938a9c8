import { useState } from 'react'
import type { Lane, SluiceClient } from '../../../../src/client/index.ts'
import { because, queries } from '../../connection.ts'
import { type Question, useAsk } from '../../parts/ask.tsx'
import { Button, Input } from '../../parts/controls.tsx'
import { previewLane } from './preview.ts'

export interface ShownLane extends Lane {
  /** Jobs that could start and wait. */
  readonly depth: number
  readonly waitedMs: number
  readonly reason: string | null
}

/** Asks before a lane is changed; afterwards all that shows lanes asks anew. */
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
      action: slots === null ? 'Take the limit away' : `Set to ${slots}`,
      run: (voice) => voice.setLane(lane.name, { slots }),
      done: `Lane ${lane.name} has ${slots === null ? 'no limit' : `${slots} slots`}`,
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
          A whole number from 0; nothing for no limit
        </span>
      )}
      <Button type="submit" small kind="primary" disabled={!changed} data-idle={!changed || undefined}>
        Set …
      </Button>
    </form>
  )
}

/** Pauses a lane, or lets it go on. */
export function SwitchButton({ lane }: { lane: ShownLane }) {
  const ask = useLaneQuestion()
  const enabled = !lane.enabled
  const toggle = () =>
    ask({
      title: enabled ? `Resume lane ${lane.name}` : `Pause lane ${lane.name}`,
      effect: <Effects words={previewLane(lane, { enabled })} />,
      action: enabled ? 'Resume' : 'Pause',
      danger: !enabled,
      run: (voice) => voice.setLane(lane.name, { enabled }),
      done: enabled
        ? lane.slots === 0
          ? `Lane ${lane.name} is resumed; with 0 slots nothing starts`
          : `Lane ${lane.name} goes on`
        : `Lane ${lane.name} is paused: what runs ends, nothing starts`,
    })
  return (
    <Button small kind={enabled ? 'primary' : 'plain'} onClick={toggle}>
      {enabled ? 'Resume …' : 'Pause …'}
    </Button>
  )
}
