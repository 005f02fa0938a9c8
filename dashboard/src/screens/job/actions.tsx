import { useState } from 'react'
import type { Job } from '../../../../src/client/index.ts'
import { because, queries } from '../../connection.ts'
import { useAsk } from '../../parts/ask.tsx'
import { Button } from '../../parts/controls.tsx'
import { count } from '../../parts/count.ts'
import { useGo } from '../../parts/link.tsx'
import { hasEnded, waitsForWhole } from '../../parts/state-badge.tsx'
import { useSession } from '../../session.tsx'
import { PriorityDialog } from './priority-dialog.tsx'
import { ResubmitDialog } from './resubmit-dialog.tsx'

/** What whoever is signed in may do with this job, in the state it is in. */
export function JobActions({ job }: { job: Job }) {
  const { session, may } = useSession()
  const [open, setOpen] = useState<'priority' | 'resubmit'>()
  const act = useActions(job)
  const own = job.submittedBy === session.name
  const theirs = own || may('workers:manage')
  const ended = hasEnded(job)
  const root = job.rootId === null || job.rootId === job.id
  const mayRetry =
    (job.status === 'failed' || job.status === 'cancelled') && !job.superseded && theirs && may('jobs:submit')
  return (
    <>
      {job.status === 'awaiting_approval' && !own && may('jobs:approve') && (
        <>
          <Button kind="primary" onClick={act.approve}>
            Approve…
          </Button>
          <Button kind="danger" onClick={act.reject}>
            Reject…
          </Button>
        </>
      )}
      {mayRetry &&
        (waitsForWhole(job) ? (
          <span className="soft">You can retry this step once the whole workflow has ended.</span>
        ) : (
          <Button kind="primary" onClick={act.retry}>
            Retry…
          </Button>
        ))}
      {root && may('jobs:submit') && <Button onClick={() => setOpen('resubmit')}>Edit and resubmit…</Button>}
      {!ended && may('workers:manage') && (job.status !== 'running' || job.kind !== null) && (
        <Button onClick={() => setOpen('priority')}>Priority…</Button>
      )}
      {!ended && theirs && may('jobs:cancel') && (
        <Button kind="danger" disabled={job.cancelling} onClick={act.cancel}>
          {job.cancelling ? 'Cancelling' : 'Cancel…'}
        </Button>
      )}
      {ended && root && theirs && may('jobs:cancel') && (
        <Button kind="danger" onClick={act.remove}>
          Delete…
        </Button>
      )}
      {open === 'priority' && <PriorityDialog job={job} onClose={() => setOpen(undefined)} />}
      {open === 'resubmit' && <ResubmitDialog job={job} onClose={() => setOpen(undefined)} />}
    </>
  )
}

/** Each asks once and says what will happen. */
function useActions(job: Job) {
  const ask = useAsk()
  const go = useGo()
  const name = `${job.task} #${job.id}`
  const below = job.kind === null ? '' : ' All its steps are cancelled too.'
  const changed = () => queries.invalidateQueries({ queryKey: ['job', job.id] })
  return {
    cancel: () =>
      ask({
        title: `Cancel ${name}`,
        effect:
          job.status === 'running'
            ? `The job is asked to stop. If it runs a program or in a process of its own, that is killed after a grace period. Nothing it has done so far is undone.${below}`
            : `The job never starts.${below}`,
        action: 'Cancel job',
        danger: true,
        run: async (reason) => {
          const status = await because(reason).cancel(job.id, reason === '' ? undefined : reason)
          await changed()
          return status === 'cancelled' ? `Cancelled ${name}` : `Asked ${name} to stop`
        },
      }),
    retry: () =>
      ask({
        title: `Retry ${name}`,
        effect:
          job.kind === null
            ? 'The job runs again with the same input. Its history is kept.'
            : 'Failed steps run again, and so do the steps that depend on them. Completed steps are kept.',
        action: 'Retry job',
        run: async (reason) => {
          // Of a workflow it has to be said; of a task it changes nothing.
          const { jobs } = await because(reason).retry(job.id, { failed: true })
          await changed()
          return `${count(jobs, 'job runs', 'jobs run')} again`
        },
      }),
    approve: () =>
      ask({
        title: `Approve ${name}`,
        effect: 'The job joins the queue and starts when its turn comes.',
        action: 'Approve job',
        run: async (reason) => {
          await because(reason).approve(job.id)
          await changed()
          return `Approved ${name}`
        },
      }),
    reject: () =>
      ask({
        title: `Reject ${name}`,
        effect: 'The job is cancelled, with your reason as its error, and never runs.',
        action: 'Reject job',
        danger: true,
        reason: 'required',
        run: async (reason) => {
          await because(reason).reject(job.id, reason)
          await changed()
          return `Rejected ${name}`
        },
      }),
    remove: () =>
      ask({
        title: `Delete ${name}`,
        effect: `The input, result, log and history${job.kind === null ? '' : ' of the job and all its steps'} are deleted permanently.`,
        action: 'Delete job',
        danger: true,
        run: async (reason) => {
          await because(reason).remove(job.id)
          queries.removeQueries({ queryKey: ['job', job.id] })
          go('/jobs')
          return `Deleted ${name}`
        },
      }),
  }
}
