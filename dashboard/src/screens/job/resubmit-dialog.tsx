import { useMutation } from '@tanstack/react-query'
import { useState } from 'react'
import type { Job } from '../../../../src/client/index.ts'
import { client } from '../../connection.ts'
import { Button, Field, Input } from '../../parts/controls.tsx'
import { Dialog } from '../../parts/dialog.tsx'
import { useGo } from '../../parts/link.tsx'
import { Problem } from '../../parts/problem.tsx'
import { useTell } from '../../parts/toast.tsx'

/** A new job like this one, with another input where that is wanted. The old one stays as it is. */
export function ResubmitDialog({ job, onClose }: { job: Job; onClose: () => void }) {
  const [input, setInput] = useState(() => JSON.stringify(job.input, null, 2))
  const [key, setKey] = useState(job.key ?? '')
  const [priority, setPriority] = useState(String(job.priority))
  const tell = useTell()
  const go = useGo()
  const wrong = mistakeIn(input)
  const wrongPriority = /^-?\d{1,7}$/.test(priority.trim()) ? undefined : 'A whole number, such as 10'
  const { mutate, isPending, error } = useMutation({
    mutationFn: () =>
      client.submit(job.task, JSON.parse(input), {
        priority: Number(priority),
        ...(key !== '' && { key }),
        ...(job.lane !== null && { lane: job.lane }),
        ...(job.tags.length > 0 && { tags: job.tags }),
      }),
    onSuccess: ({ id, attached }) => {
      tell(attached ? `Job #${id} already has this key and input` : `Submitted as #${id}`)
      onClose()
      go(`/jobs/${id}`)
    },
  })
  return (
    <Dialog title={`Submit ${job.task} again`} wide onClose={onClose}>
      <form
        className="dialog-form"
        onSubmit={(event) => {
          event.preventDefault()
          if (wrong === undefined && wrongPriority === undefined) mutate()
        }}
      >
        <Field label="Input" hint="JSON. The old job stays as it is." error={wrong}>
          <textarea
            className="input resubmit-input"
            rows={14}
            spellCheck={false}
            value={input}
            onChange={(event) => setInput(event.target.value)}
          />
        </Field>
        <div className="resubmit-more">
          <Field label="Key" hint="At most one active job has it; empty: none.">
            <Input value={key} maxLength={500} onChange={(event) => setKey(event.target.value)} />
          </Field>
          <Field label="Priority" hint="Higher goes first." error={wrongPriority}>
            <Input
              inputMode="numeric"
              value={priority}
              onChange={(event) => setPriority(event.target.value)}
            />
          </Field>
        </div>
        <Problem error={error} />
        <div className="dialog-foot">
          <Button onClick={onClose}>Back</Button>
          <Button
            type="submit"
            kind="primary"
            disabled={isPending || wrong !== undefined || wrongPriority !== undefined}
          >
            Submit
          </Button>
        </div>
      </form>
    </Dialog>
  )
}

function mistakeIn(text: string): string | undefined {
  try {
    JSON.parse(text)
    return undefined
  } catch (error) {
    return `Not JSON yet: ${error instanceof Error ? error.message : String(error)}`
  }
}
