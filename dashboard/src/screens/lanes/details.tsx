import { useState } from 'react'
import type { LaneOverrides } from '../../../../src/client/index.ts'
import { Button, Field, Input, Select } from '../../parts/controls.tsx'
import { Facts, Panel } from '../../parts/panel.tsx'
import { durationText, durationWords } from '../../parts/time.tsx'
import { IfMay } from '../../session.tsx'
import { type ShownLane, useLaneQuestion } from './controls.tsx'
import { DeleteLane } from './dialogs.tsx'
import { LaneHistory } from './history.tsx'
import { TasksOfLane } from './tasks.tsx'

/** One lane: its tasks, all its settings, and who changed them. */
export function LaneDetails({
  lane,
  others,
  moved,
}: {
  lane: ShownLane
  /** The other lanes. */
  others: readonly string[]
  moved: LaneOverrides['moved']
}) {
  const [editing, setEditing] = useState(false)
  const [deleting, setDeleting] = useState(false)
  return (
    <>
      <Panel
        title={`Lane ${lane.name}`}
        aside={
          <IfMay permission="workers:manage">
            <span className="lane-tools">
              {!editing && (
                <Button small onClick={() => setEditing(true)}>
                  Edit settings…
                </Button>
              )}
              {lane.operatorSet.length > 0 && <ResetButton lane={lane} />}
              {lane.name !== 'default' && (
                <Button small onClick={() => setDeleting(true)}>
                  Delete…
                </Button>
              )}
            </span>
          </IfMay>
        }
      >
        {lane.reason !== null && lane.depth > 0 && <p className="lane-reason">{lane.reason}</p>}
        <Facts
          facts={[
            ['Limit per worker', perWorkerWords(lane.perWorker)],
            ['Poll interval', durationWords(lane.pollMs)],
            ['Workers lost after', durationWords(lane.staleMs)],
            ['Ageing', lane.ageingMs === null ? 'off' : `priority +1 every ${durationWords(lane.ageingMs)}`],
            ['Placement', PLACEMENTS[lane.placement]],
            ['Prefetch', prefetchWords(lane.prefetch)],
            ['Slots held by workers', lane.held],
            ['Set by operators', lane.operatorSet.join(', ') || 'nothing'],
          ]}
        />
        {editing && <SettingsForm lane={lane} onClose={() => setEditing(false)} />}
      </Panel>
      {deleting && <DeleteLane lane={lane} lanes={others} onClose={() => setDeleting(false)} />}
      <TasksOfLane lane={lane} others={others} moved={moved} />
      <LaneHistory lane={lane} />
    </>
  )
}

function perWorkerWords(perWorker: number | null): string {
  if (perWorker === null) return 'no limit'
  if (perWorker === -1) return 'its capacity (or cores, without one)'
  return perWorker === 0 ? 'its number of cores' : `${perWorker} jobs`
}

function prefetchWords(prefetch: number): string {
  return prefetch === 0 ? 'off' : `up to ${prefetch} jobs per worker`
}

function ResetButton({ lane }: { lane: ShownLane }) {
  const ask = useLaneQuestion()
  return (
    <Button
      small
      onClick={() =>
        ask({
          title: `Reset lane ${lane.name}`,
          effect: `Settings changed by operators (${lane.operatorSet.join(', ')}) return to their values in files and programs.`,
          action: 'Reset lane',
          run: (voice) => voice.resetLane(lane.name),
          done: `Reset lane ${lane.name}`,
        })
      }
    >
      Reset…
    </Button>
  )
}

const PLACEMENTS: Readonly<Record<ShownLane['placement'], string>> = {
  fill: 'fill: first worker in fill order',
  spread: 'spread: least busy worker',
}

const PER_WORKER = /^(?:\d{0,9}|capacity|cores)$/
const PREFETCH = /^(?:\d{1,3}|1000|off)$/
const DURATION = /^\d+(?:\.\d+)?(?:ms|s|m|h|d)$/

function perWorkerText(perWorker: number | null): string {
  if (perWorker === null) return ''
  return perWorker > 0 ? String(perWorker) : perWorker === 0 ? 'cores' : 'capacity'
}

function readPerWorker(text: string): number | null {
  if (text === '') return null
  return text === 'capacity' ? -1 : text === 'cores' ? 0 : Number(text)
}

function prefetchText(prefetch: number): string {
  return prefetch === 0 ? 'off' : String(prefetch)
}

function readPrefetch(text: string): number {
  return text === 'off' ? 0 : Number(text)
}

/** The settings that are seldom changed, in the words of the config file. */
function SettingsForm({ lane, onClose }: { lane: ShownLane; onClose: () => void }) {
  const ask = useLaneQuestion()
  const [perWorker, setPerWorker] = useState(perWorkerText(lane.perWorker))
  const given = {
    poll: durationText(lane.pollMs),
    stale: durationText(lane.staleMs),
    ageing: lane.ageingMs === null ? '' : durationText(lane.ageingMs),
  }
  const [poll, setPoll] = useState(given.poll)
  const [stale, setStale] = useState(given.stale)
  const [ageing, setAgeing] = useState(given.ageing)
  const [placement, setPlacement] = useState(lane.placement)
  const [prefetch, setPrefetch] = useState(prefetchText(lane.prefetch))
  const wrong = {
    perWorker: PER_WORKER.test(perWorker)
      ? undefined
      : 'Enter a whole number, capacity or cores, or leave empty',
    poll: DURATION.test(poll) ? undefined : 'Enter a duration, such as 2s',
    stale: DURATION.test(stale) ? undefined : 'Enter a duration, such as 15s',
    ageing:
      ageing === '' || DURATION.test(ageing) ? undefined : 'Enter a duration, such as 10m, or leave empty',
    prefetch: PREFETCH.test(prefetch) ? undefined : 'Enter a whole number from 0 to 1000, or off',
  }
  const change = {
    ...(perWorker !== perWorkerText(lane.perWorker) && { perWorker: readPerWorker(perWorker) }),
    ...(poll !== given.poll && { poll }),
    ...(stale !== given.stale && { stale }),
    ...(ageing !== given.ageing && { ageing: ageing === '' ? null : ageing }),
    ...(placement !== lane.placement && { placement }),
    ...(readPrefetch(prefetch) !== lane.prefetch && { prefetch: readPrefetch(prefetch) }),
  }
  const names = Object.keys(change)
  const bad = Object.values(wrong).some((each) => each !== undefined)
  const submit = () => {
    ask({
      title: `Edit lane ${lane.name}`,
      effect: `Settings to change: ${names.join(', ')}. Workers apply them on their next poll. No running job is stopped.`,
      action: 'Save settings',
      run: (voice) => voice.setLane(lane.name, change),
      done: `Changed lane ${lane.name}`,
    })
    onClose()
  }
  return (
    <form
      className="lane-form"
      onSubmit={(event) => {
        event.preventDefault()
        if (!bad && names.length > 0) submit()
      }}
    >
      <Field
        label="Limit per worker"
        hint="A number, capacity or cores. Empty: no limit."
        error={wrong.perWorker}
      >
        <Input value={perWorker} onChange={(event) => setPerWorker(event.target.value)} />
      </Field>
      <Field
        label="Poll interval"
        hint="How often workers look for jobs without a notification."
        error={wrong.poll}
      >
        <Input value={poll} onChange={(event) => setPoll(event.target.value)} />
      </Field>
      <Field
        label="Workers lost after"
        hint="Silence after which jobs are taken over. More than two heartbeats."
        error={wrong.stale}
      >
        <Input value={stale} onChange={(event) => setStale(event.target.value)} />
      </Field>
      <Field
        label="Ageing"
        hint="Raises the priority of a waiting job by 1 every interval. Empty: off."
        error={wrong.ageing}
      >
        <Input value={ageing} onChange={(event) => setAgeing(event.target.value)} />
      </Field>
      <Field label="Placement" hint="Which free worker gets the next job.">
        <Select
          value={placement}
          onChange={(event) => setPlacement(event.target.value === 'spread' ? 'spread' : 'fill')}
        >
          {Object.entries(PLACEMENTS).map(([value, words]) => (
            <option key={value} value={value}>
              {words}
            </option>
          ))}
        </Select>
      </Field>
      <Field
        label="Prefetch"
        hint="Jobs assigned to a worker beyond its slots, or off."
        error={wrong.prefetch}
      >
        <Input value={prefetch} onChange={(event) => setPrefetch(event.target.value)} />
      </Field>
      <div className="dialog-foot lane-form-foot">
        <Button onClick={onClose}>Back</Button>
        <Button type="submit" kind="primary" disabled={bad || names.length === 0}>
          Save…
        </Button>
      </div>
    </form>
  )
}
