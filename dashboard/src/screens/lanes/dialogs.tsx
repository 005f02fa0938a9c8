import { useMutation } from '@tanstack/react-query'
import { type ReactNode, useState } from 'react'
import type { SluiceClient } from '../../../../src/client/index.ts'
import { because, queries } from '../../connection.ts'
import { Button, Field, Input, Select } from '../../parts/controls.tsx'
import { Dialog } from '../../parts/dialog.tsx'
import { Problem } from '../../parts/problem.tsx'
import { ReasonField } from '../../parts/reason-field.tsx'
import { useTell } from '../../parts/toast.tsx'
import type { ShownLane } from './controls.tsx'

/** A form that changes which lanes there are, or which lane a task belongs to. */
function LaneDialog({
  title,
  effect,
  action,
  danger = false,
  ready,
  run,
  done,
  onDone,
  onClose,
  children,
}: {
  title: string
  effect: ReactNode
  action: string
  danger?: boolean
  /** Whether enough is filled in. */
  ready: boolean
  run: (voice: SluiceClient) => Promise<unknown>
  done: string
  /** After it has closed. */
  onDone?: () => void
  onClose: () => void
  children?: ReactNode
}) {
  const [reason, setReason] = useState('')
  const tell = useTell()
  const { mutate, isPending, error } = useMutation({
    mutationFn: () => run(because(reason)),
    onSuccess: async () => {
      await queries.invalidateQueries({ queryKey: ['lanes'] })
      tell(done)
      onClose()
      onDone?.()
    },
  })
  return (
    <Dialog title={title} onClose={onClose}>
      <form
        className="dialog-form"
        onSubmit={(event) => {
          event.preventDefault()
          if (ready && !isPending) mutate()
        }}
      >
        <div className="dialog-text">{effect}</div>
        {children}
        <ReasonField value={reason} onChange={setReason} />
        <Problem error={error} />
        <div className="dialog-foot">
          <Button onClick={onClose}>Back</Button>
          <Button type="submit" kind={danger ? 'danger' : 'primary'} disabled={isPending || !ready}>
            {action}
          </Button>
        </div>
      </form>
    </Dialog>
  )
}

/** Creates a lane that no file declares. */
export function NewLane({ onCreated, onClose }: { onCreated: (name: string) => void; onClose: () => void }) {
  const [typed, setName] = useState('')
  const [slots, setSlots] = useState('')
  const name = typed.trim()
  const wrong = !/^\d{0,9}$/.test(slots.trim())
  return (
    <LaneDialog
      title="Create lane"
      effect="You can move tasks to the lane, and submissions can name it. No file has to declare it."
      action="Create lane"
      ready={name !== '' && !wrong}
      run={(voice) => voice.createLane(name, { slots: slots.trim() === '' ? null : Number(slots) })}
      done={`Created lane ${name}`}
      onDone={() => onCreated(name)}
      onClose={onClose}
    >
      <Field label="Name">
        <Input
          required
          autoFocus
          maxLength={100}
          value={typed}
          onChange={(event) => setName(event.target.value)}
        />
      </Field>
      <Field
        label="Slots"
        hint="Jobs at once in the whole system. Empty: no limit."
        error={wrong ? 'Enter 0 or more, or leave empty for no limit' : undefined}
      >
        <Input inputMode="numeric" value={slots} onChange={(event) => setSlots(event.target.value)} />
      </Field>
    </LaneDialog>
  )
}

function LaneField({
  label,
  hint,
  lanes,
  value,
  none,
  onChange,
}: {
  label: string
  hint?: string
  lanes: readonly string[]
  value: string
  /** What choosing nothing means. */
  none: string
  onChange: (lane: string) => void
}) {
  return (
    <Field label={label} hint={hint}>
      <Select value={value} onChange={(event) => onChange(event.target.value)}>
        <option value="">{none}</option>
        {lanes.map((lane) => (
          <option key={lane}>{lane}</option>
        ))}
      </Select>
    </Field>
  )
}

interface OfLane {
  readonly lane: ShownLane
  /** The other lanes. */
  readonly lanes: readonly string[]
  readonly onClose: () => void
}

/** Moves a task to another lane. */
export function MoveTask({ task, lane, lanes, onClose }: OfLane & { task: string }) {
  const [to, setTo] = useState('')
  return (
    <LaneDialog
      title={`Move ${task} to another lane`}
      effect="Waiting jobs of the task follow within seconds, unless their submission named a lane. Running jobs finish in the old lane. The task stays in the new lane, whatever files and programs declare, until you move it back."
      action="Move task"
      ready={to !== ''}
      run={(voice) => voice.moveTask(task, to)}
      done={`Moved ${task} to lane ${to}`}
      onClose={onClose}
    >
      <LaneField
        label={`From ${lane.name} to`}
        lanes={lanes}
        value={to}
        none="Select a lane"
        onChange={setTo}
      />
    </LaneDialog>
  )
}

/** Deletes a lane; what is in it goes elsewhere. */
export function DeleteLane({ lane, lanes, onClose }: OfLane) {
  const [to, setTo] = useState('')
  return (
    <LaneDialog
      title={`Delete lane ${lane.name}`}
      effect={
        lane.declared
          ? 'Running jobs finish. Files or programs declare this lane; it stays deleted until you restore it.'
          : 'Running jobs finish.'
      }
      action="Delete lane"
      danger
      ready
      run={(voice) => voice.deleteLane(lane.name, to === '' ? {} : { moveTo: to })}
      done={`Deleted lane ${lane.name}`}
      onClose={onClose}
    >
      <LaneField
        label="Move tasks and waiting jobs to"
        hint={`Required while the lane is in use. It has ${lane.tasks.length === 1 ? '1 task' : `${lane.tasks.length} tasks`}.`}
        lanes={lanes}
        value={to}
        none="None (lane not in use)"
        onChange={setTo}
      />
    </LaneDialog>
  )
}
