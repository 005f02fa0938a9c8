import { useMutation } from '@tanstack/react-query'
import { useState } from 'react'
import type { Job } from '../../../../src/client/index.ts'
import { client, queries } from '../../connection.ts'
import { Button, Field, Input } from '../../parts/controls.tsx'
import { Dialog } from '../../parts/dialog.tsx'
import { Problem } from '../../parts/problem.tsx'
import { useTell } from '../../parts/toast.tsx'

/** Gives a waiting job another place in line. */
export function PriorityDialog({ job, onClose }: { job: Job; onClose: () => void }) {
  const [text, setText] = useState(String(job.priority))
  const [reason, setReason] = useState('')
  const tell = useTell()
  const wrong = /^-?\d{1,7}$/.test(text.trim()) ? undefined : 'A whole number, such as 10'
  const { mutate, isPending, error } = useMutation({
    mutationFn: () => (reason === '' ? client : client.because(reason)).reprioritise(job.id, Number(text)),
    onSuccess: async () => {
      await queries.invalidateQueries({ queryKey: ['job', job.id] })
      tell(`${job.task} #${job.id} has priority ${Number(text)}`)
      onClose()
    },
  })
  return (
    <Dialog title={`Priority of ${job.task} #${job.id}`} onClose={onClose}>
      <form
        className="dialog-form"
        onSubmit={(event) => {
          event.preventDefault()
          if (wrong === undefined) mutate()
        }}
      >
        <Field label="Priority" hint="Higher goes first in its lane. Most jobs have 0." error={wrong}>
          <Input inputMode="numeric" value={text} onChange={(event) => setText(event.target.value)} />
        </Field>
        <Field label="Reason (optional)">
          <Input
            maxLength={500}
            placeholder="Kept in the audit"
            value={reason}
            onChange={(event) => setReason(event.target.value)}
          />
        </Field>
        <Problem error={error} />
        <div className="dialog-foot">
          <Button onClick={onClose}>Keep as it is</Button>
          <Button type="submit" kind="primary" disabled={isPending || wrong !== undefined}>
            Change
          </Button>
        </div>
      </form>
    </Dialog>
  )
}
