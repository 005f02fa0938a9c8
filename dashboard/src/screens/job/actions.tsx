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
            Approve …
          </Button>
          <Button kind="danger" onClick={act.reject}>
            Reject …
          </Button>
        </>
      )}
      {mayRetry &&
        (waitsForWhole(job) ? (
          <span className="soft">It can run again once the whole workflow has ended.</span>
        ) : (
          <Button kind="primary" onClick={act.retry}>
            Retry …
          </Button>
        ))}
      {root && may('jobs:submit') && <Button onClick={() => setOpen('resubmit')}>Edit and resubmit …</Button>}
      {!ended && may('workers:manage') && (job.status !== 'running' || job.kind !== null) && (
        <Button onClick={() => setOpen('priority')}>Priority …</Button>
      )}
      {!ended && theirs && may('jobs:cancel') && (
        <Button kind="danger" disabled={job.cancelling} onClick={act.cancel}>
          {job.cancelling ? 'Cancelling' : 'Cancel …'}
        </Button>
      )}
      {ended && root && theirs && may('jobs:cancel') && (
        <Button kind="danger" onClick={act.remove}>
          Delete …
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
  const below = job.kind === null ? '' : ' Everything below it ends with it.'
  const changed = () => queries.invalidateQueries({ queryKey: ['job', job.id] })
  return {
    cancel: () =>
      ask({
        title: `Cancel ${name}`,
        effect:
          job.status === 'running'
            ? `It is asked to stop; a program or a process of its own is killed after its grace. What it has done so far is not undone.${below}`
            : `It ends at once and never starts.${below}`,
        action: 'Cancel job',
        danger: true,
        run: async (reason) => {
          const status = await because(reason).cancel(job.id, reason === '' ? undefined : reason)
          await changed()
          return status === 'cancelled' ? `${name} is cancelled` : `${name} is asked to stop`
        },
      }),
    retry: () =>
      ask({
        title: `Retry ${name}`,
        effect:
          job.kind === null
            ? 'It runs again with the same input. Its history stays.'
            : 'What failed in it runs again, with what follows from that. What has completed is kept.',
        action: 'Retry',
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
        effect: 'It takes its place in line and runs as soon as there is room.',
        action: 'Approve',
        run: async (reason) => {
          await because(reason).approve(job.id)
          await changed()
          return `${name} is approved`
        },
      }),
    reject: () =>
      ask({
        title: `Reject ${name}`,
        effect: 'It ends as cancelled, with your reason as its error, and never runs.',
        action: 'Reject',
        danger: true,
        reason: 'required',
        run: async (reason) => {
          await because(reason).reject(job.id, reason)
          await changed()
          return `${name} is rejected`
        },
      }),
    remove: () =>
      ask({
        title: `Delete ${name}`,
        effect: `Its input, result, log and history are gone for good.${job.kind === null ? '' : ' So is everything below it.'}`,
        action: 'Delete',
        danger: true,
        run: async (reason) => {
          await because(reason).remove(job.id)
          queries.removeQueries({ queryKey: ['job', job.id] })
          go('/jobs')
          return `${name} is deleted`
        },
      }),
  }
}
