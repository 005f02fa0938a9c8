import { useMutation } from '@tanstack/react-query'
import { useState } from 'react'
import type { Job } from '../../../../src/client/index.ts'
import { because, queries } from '../../connection.ts'
import { Button } from '../../parts/controls.tsx'
import { Dialog } from '../../parts/dialog.tsx'
import { PriorityField, priorityMistake } from '../../parts/priority-field.tsx'
import { Problem } from '../../parts/problem.tsx'
import { ReasonField } from '../../parts/reason-field.tsx'
import { useTell } from '../../parts/toast.tsx'

/** Gives a waiting job another place in line, or every job of a workflow that has not started. */
export function PriorityDialog({ job, onClose }: { job: Job; onClose: () => void }) {
  const [text, setText] = useState(String(job.priority))
  const [reason, setReason] = useState('')
  const tell = useTell()
  const wrong = priorityMistake(text)
  const { mutate, isPending, error } = useMutation({
    mutationFn: () => because(reason).reprioritise(job.id, Number(text)),
    onSuccess: async () => {
      await queries.invalidateQueries({ queryKey: ['job', job.id] })
      tell(`Set the priority of ${job.task} #${job.id} to ${Number(text)}`)
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
        <PriorityField value={text} onChange={setText} />
        {job.kind !== null && (
          <p className="soft">
            The priority applies to all steps that have not started, and to those created later. Running jobs
            keep running.
          </p>
        )}
        <ReasonField value={reason} onChange={setReason} />
        <Problem error={error} />
        <div className="dialog-foot">
          <Button onClick={onClose}>Back</Button>
          <Button type="submit" kind="primary" disabled={isPending || wrong !== undefined}>
            Set priority
          </Button>
        </div>
      </form>
    </Dialog>
  )
}
