import { useMutation, useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { because, client, queries } from '../../connection.ts'
import { Button } from '../../parts/controls.tsx'
import { count } from '../../parts/count.ts'
import { Dialog } from '../../parts/dialog.tsx'
import { formatJson } from '../../parts/fold-json.ts'
import { JsonField, jsonMistake } from '../../parts/json-field.tsx'
import { Loading, Note } from '../../parts/notes.tsx'
import { Problem } from '../../parts/problem.tsx'
import { ReasonField } from '../../parts/reason-field.tsx'
import { useTell } from '../../parts/toast.tsx'

interface RerunStep {
  readonly name: string
  /** The job it has become. */
  readonly id: string
  readonly kind: 'task' | 'workflow' | 'group' | 'fanout'
}

/** Runs a workflow again from a step on, with another input for it where that is wanted. */
export function RerunDialog({
  workflow,
  step,
  onClose,
  onDone,
}: {
  /** The workflow or group that the step is in. */
  workflow: string
  step: RerunStep
  onClose: () => void
  onDone?: () => void
}) {
  const editable = step.kind === 'task' || step.kind === 'workflow'
  const { data: job, error } = useQuery({
    queryKey: ['job', step.id, 'itself'],
    queryFn: () => client.getJob(step.id),
    enabled: editable,
  })
  return (
    <Dialog title={`Rerun from ${step.name}`} wide={editable} onClose={onClose}>
      <Problem error={error} />
      {editable && job === undefined && error === null && <Loading lines={6} />}
      {(!editable || job !== undefined) && (
        <Form
          workflow={workflow}
          step={step}
          input={editable ? formatJson(job?.input ?? null) : undefined}
          onClose={onClose}
          onDone={onDone}
        />
      )}
    </Dialog>
  )
}

function Form({
  workflow,
  step,
  input,
  onClose,
  onDone,
}: {
  workflow: string
  step: RerunStep
  input: string | undefined
  onClose: () => void
  onDone: (() => void) | undefined
}) {
  const [text, setText] = useState(input ?? '')
  const [reason, setReason] = useState('')
  const tell = useTell()
  const edited = input !== undefined && text !== input
  const wrong = edited ? jsonMistake(text) : undefined
  const { mutate, isPending, error } = useMutation({
    mutationFn: () =>
      because(reason).retry(workflow, {
        from: step.name,
        ...(edited && { input: JSON.parse(text) as unknown }),
      }),
    onSuccess: async ({ jobs, superseded }) => {
      const put = superseded === 0 ? '' : `, ${count(superseded, 'earlier job')} kept as history`
      tell(`${count(jobs, 'job runs', 'jobs run')} again${put}`)
      onClose()
      onDone?.()
      await queries.invalidateQueries({ queryKey: ['workflow'] })
    },
  })
  return (
    <form
      className="dialog-form"
      onSubmit={(event) => {
        event.preventDefault()
        if (wrong === undefined) mutate()
      }}
    >
      <Note>
        Reruns the step <strong>{step.name}</strong> and every step that depends on it. Earlier completed
        steps are kept. Replaced jobs are kept as history.
      </Note>
      {input !== undefined && (
        <JsonField
          label="Input"
          hint={
            edited
              ? 'The step gets this input instead of the one that the workflow computes.'
              : 'JSON. If unchanged, the workflow computes the input again.'
          }
          rows={12}
          value={text}
          onChange={setText}
        />
      )}
      <ReasonField value={reason} onChange={setReason} />
      <Problem error={error} />
      <div className="dialog-foot">
        <Button onClick={onClose}>Back</Button>
        <Button type="submit" kind="primary" disabled={isPending || wrong !== undefined}>
          {edited ? 'Rerun with this input' : 'Rerun'}
        </Button>
      </div>
    </form>
  )
}
