import { useMutation } from '@tanstack/react-query'
import { useState } from 'react'
import type { Job } from '../../../../src/client/index.ts'
import { client } from '../../connection.ts'
import { Button, Field, Input } from '../../parts/controls.tsx'
import { Dialog } from '../../parts/dialog.tsx'
import { formatJson } from '../../parts/fold-json.ts'
import { JsonField, jsonMistake } from '../../parts/json-field.tsx'
import { useGo } from '../../parts/link.tsx'
import { PriorityField, priorityMistake } from '../../parts/priority-field.tsx'
import { Problem } from '../../parts/problem.tsx'
import { useTell } from '../../parts/toast.tsx'

/** A new job like this one, with another input where that is wanted. The old one stays as it is. */
export function ResubmitDialog({ job, onClose }: { job: Job; onClose: () => void }) {
  const [input, setInput] = useState(() => formatJson(job.input))
  const [key, setKey] = useState(job.key ?? '')
  const [priority, setPriority] = useState(String(job.priority))
  const tell = useTell()
  const go = useGo()
  const wrong = jsonMistake(input) ?? priorityMistake(priority)
  const { mutate, isPending, error } = useMutation({
    mutationFn: () =>
      client.submit(job.task, JSON.parse(input), {
        priority: Number(priority),
        resubmitOf: job.id,
        ...(key !== '' && { key }),
        // Without a lane of its own, the new job follows its task, as the old one did.
        ...(job.laneChosen && job.lane !== null && { lane: job.lane }),
        ...(job.tags.length > 0 && { tags: job.tags }),
      }),
    onSuccess: ({ id, attached }) => {
      tell(attached ? `Job #${id} already has this key and input` : `Submitted as #${id}`)
      onClose()
      go(`/jobs/${id}`)
    },
  })
  return (
    <Dialog title={`Resubmit ${job.task}`} wide onClose={onClose}>
      <form
        className="dialog-form"
        onSubmit={(event) => {
          event.preventDefault()
          if (wrong === undefined) mutate()
        }}
      >
        <JsonField
          label="Input"
          hint="JSON. The original job does not change."
          rows={14}
          value={input}
          onChange={setInput}
        />
        <div className="resubmit-more">
          <Field label="Key" hint="At most one active job can have this key. Empty: no key.">
            <Input value={key} maxLength={500} onChange={(event) => setKey(event.target.value)} />
          </Field>
          <PriorityField value={priority} onChange={setPriority} />
        </div>
        <Problem error={error} />
        <div className="dialog-foot">
          <Button onClick={onClose}>Back</Button>
          <Button type="submit" kind="primary" disabled={isPending || wrong !== undefined}>
            Submit job
          </Button>
        </div>
      </form>
    </Dialog>
  )
}
