import { useState } from 'react'
import {
  ACTIVE_STATUSES,
  addReruns,
  type JobFilter,
  type JobStatus,
  type JobSummary,
  type ManyProgress,
  NO_RERUNS,
  type Reruns,
} from '../../../../src/client/index.ts'
import { because, client, queries } from '../../connection.ts'
import { type Question, useAsk } from '../../parts/ask.tsx'
import { Button } from '../../parts/controls.tsx'
import { count } from '../../parts/count.ts'
import { Dialog } from '../../parts/dialog.tsx'
import { PriorityField, priorityMistake } from '../../parts/priority-field.tsx'
import { describeError } from '../../parts/problem.tsx'
import { RerunSummary } from '../../parts/reruns.tsx'
import { hasEnded, waitsForWhole } from '../../parts/state-badge.tsx'
import { useTell } from '../../parts/toast.tsx'
import { useSession } from '../../session.tsx'

type Action = 'cancel' | 'retry' | 'priority'

const WORDS: Readonly<Record<Action, { verb: string; done: string; effect: string }>> = {
  cancel: {
    verb: 'Cancel',
    done: 'cancelled',
    effect:
      'Waiting jobs never start. Running jobs are asked to stop; programs and process pools are killed after a grace period. Workflows are cancelled with all their steps.',
  },
  retry: {
    verb: 'Retry',
    done: 'retried',
    effect:
      'Each job runs again with the same input. In a workflow, failed steps and the steps that depend on them run again.',
  },
  priority: {
    verb: 'Set priority',
    done: 'updated',
    effect:
      'Waiting jobs move to their new position in the queue. Workflows pass the priority on to every step that has not started.',
  },
}

const FITS: Readonly<Record<Action, (job: JobSummary) => boolean>> = {
  cancel: (job) => !hasEnded(job),
  retry: (job) =>
    (job.status === 'failed' || job.status === 'cancelled') && !job.superseded && !waitsForWhole(job),
  priority: (job) => !hasEnded(job) && (job.status !== 'running' || job.kind !== null),
}

/** Whether a list can have jobs in it that the action is for: nothing that waits is retried, nothing that has ended cancelled. */
function mayFit(action: Action, { status, waits }: JobFilter): boolean {
  if (waits !== undefined) return action !== 'retry'
  return status === undefined || status.some((each) => STATUSES[action].includes(each))
}

const STATUSES: Readonly<Record<Action, readonly JobStatus[]>> = {
  cancel: ACTIVE_STATUSES,
  retry: ['failed', 'cancelled'],
  priority: ACTIVE_STATUSES,
}

/** Requests at a time, when chosen jobs are changed one by one. */
const AT_ONCE = 4

/** What whoever is signed in may do with several jobs: nothing, for those who only look. */
export function useBulkActions(): readonly Action[] {
  const { may } = useSession()
  return [
    ...(may('jobs:cancel') || may('workers:manage') ? (['cancel'] as const) : []),
    ...(may('jobs:submit') || may('workers:manage') ? (['retry'] as const) : []),
    ...(may('workers:manage') ? (['priority'] as const) : []),
  ]
}

/** What can be done with the jobs that were chosen, or with all that match. */
export function BulkBar({
  chosen,
  filter,
  words,
  onDone,
}: {
  chosen: readonly JobSummary[]
  filter: JobFilter
  /** The filter, for people. */
  words: string
  onDone: () => void
}) {
  const { may } = useSession()
  const [priorityFor, setPriorityFor] = useState<'chosen' | 'all'>()
  const actOnChosen = useActOnChosen(chosen, onDone)
  const actOnAll = useActOnAll(filter, words, onDone)
  const some = chosen.length > 0
  const actions = useBulkActions()
  // Of a tree the root is changed, with all below it: not all that are listed, where steps are.
  const offered = some
    ? actions
    : may('workers:manage') && filter.children !== true
      ? actions.filter((action) => mayFit(action, filter))
      : []
  if (offered.length === 0)
    return actions.length === 0 ? null : <span className="soft">Select jobs to act on them</span>
  return (
    <div className="bulk-bar" data-some={some || undefined}>
      <span>{some ? `${chosen.length.toLocaleString()} selected` : 'All matching jobs'}</span>
      {offered.map((action) => (
        <Button
          key={action}
          small
          kind={!some ? 'quiet' : action === 'cancel' ? 'danger' : 'plain'}
          disabled={some && !chosen.some(FITS[action])}
          onClick={() => {
            if (action === 'priority') setPriorityFor(some ? 'chosen' : 'all')
            else if (some) void actOnChosen(action)
            else void actOnAll(action)
          }}
        >
          {WORDS[action].verb}…
        </Button>
      ))}
      {priorityFor !== undefined && (
        <PriorityForm
          onClose={() => setPriorityFor(undefined)}
          onChoose={(priority) => {
            const whom = priorityFor
            setPriorityFor(undefined)
            if (whom === 'chosen') void actOnChosen('priority', priority)
            else void actOnAll('priority', priority)
          }}
        />
      )}
    </div>
  )
}

/** A job that was chosen, or those of one workflow: they run again together. */
interface Choice {
  readonly id: string
  readonly jobs: readonly JobSummary[]
}

function byTree(jobs: readonly JobSummary[]): Choice[] {
  const trees = new Map<string, JobSummary[]>()
  for (const job of jobs) {
    const root = job.rootId ?? job.id
    trees.set(root, [...(trees.get(root) ?? []), job])
  }
  return [...trees].map(([id, found]) => ({ id, jobs: found }))
}

function retryOptions({ id, jobs }: Choice): { failed: true; only?: string[] } {
  return { failed: true, ...(jobs.every((job) => job.id !== id) && { only: jobs.map((job) => job.id) }) }
}

/** What a retry of the jobs that were chosen will run. One that cannot be retried says so when it is tried. */
async function countReruns(chosen: readonly Choice[]): Promise<Reruns> {
  let reruns = NO_RERUNS
  await inTurns(chosen, async (choice) => {
    const planned = await client
      .retry(choice.id, { ...retryOptions(choice), dryRun: true })
      .catch(() => undefined)
    if (planned === undefined) return
    const { name, jobs } = planned
    const isTree = choice.jobs.some(({ rootId, kind }) => rootId !== null || kind !== null)
    reruns = addReruns(reruns, { jobs, workflows: isTree ? [{ name, runs: 1, jobs }] : [], leftOut: 0 })
  })
  return reruns
}

async function inTurns<T>(items: readonly T[], work: (item: T) => Promise<void>): Promise<void> {
  const waiting = [...items]
  const go = async () => {
    for (let item = waiting.pop(); item !== undefined; item = waiting.pop()) await work(item)
  }
  await Promise.all(Array.from({ length: AT_ONCE }, go))
}

/** One request a job, or for a retry one a workflow: those that cannot be changed are told, the others go on. */
function useActOnChosen(chosen: readonly JobSummary[], onDone: () => void) {
  const ask = useAsk()
  return async (action: Action, priority = 0) => {
    const fitting = chosen.filter(FITS[action])
    const left = chosen.length - fitting.length
    const choices = action === 'retry' ? byTree(fitting) : fitting.map((job) => ({ id: job.id, jobs: [job] }))
    const reruns = action === 'retry' ? await countReruns(choices) : undefined
    ask({
      ...questionOf(action, priority, fitting.length),
      ...(reruns !== undefined && { count: reruns.jobs }),
      effect: (
        <>
          <p>{WORDS[action].effect}</p>
          {reruns !== undefined && <RerunSummary matched={fitting.length} reruns={reruns} />}
          {left > 0 && (
            <p>{count(left, 'selected job is', 'selected jobs are')} in another state and will not change.</p>
          )}
        </>
      ),
      run: async (reason, progress) => {
        const voice = because(reason)
        const failures: string[] = []
        let done = 0
        await inTurns(choices, async (choice) => {
          try {
            if (action === 'cancel') await voice.cancel(choice.id, reason === '' ? undefined : reason)
            else if (action === 'retry') await voice.retry(choice.id, retryOptions(choice))
            else await voice.reprioritise(choice.id, priority)
            done += choice.jobs.length
          } catch (error) {
            failures.push(`#${choice.id}: ${describeError(error).words}`)
          }
          progress(`${(done + failures.length).toLocaleString()} of ${fitting.length.toLocaleString()}`)
        })
        await queries.invalidateQueries({ queryKey: ['jobs'] })
        if (done === 0 && failures.length > 0) throw new Error(failures[0])
        onDone()
        const refused = failures.length === 0 ? '' : `; ${failures.length} failed: ${failures[0]}`
        return `${count(done, 'job')} ${WORDS[action].done}${refused}`
      },
    })
  }
}

/** Counts first, asks, then works through all that match on the server. */
function useActOnAll(filter: JobFilter, words: string, onDone: () => void) {
  const ask = useAsk()
  const tell = useTell()
  return async (action: Action, priority = 0) => {
    const { limit: _, before: __, order: ___, ...criteria } = filter
    const run = (options: { dryRun?: boolean; onProgress?: (done: ManyProgress) => void }, reason = '') => {
      const voice = because(reason)
      if (action === 'cancel')
        return voice.cancelMany(criteria, { ...options, ...(reason !== '' && { reason }) })
      if (action === 'retry') return voice.retryMany(criteria, options)
      return voice.reprioritiseMany(criteria, priority, options)
    }
    tell('Counting matching jobs…')
    const counted = await run({ dryRun: true }).catch((error: unknown) => {
      tell(describeError(error).words)
      return undefined
    })
    if (counted === undefined) return
    ask({
      ...questionOf(action, priority, counted.matched),
      ...(counted.reruns !== undefined && { count: counted.reruns.jobs }),
      effect: (
        <>
          {counted.reruns !== undefined && <RerunSummary matched={counted.matched} reruns={counted.reruns} />}
          <p>
            {counted.matched === 0 ? 'None' : counted.matched.toLocaleString()} of the {words} can be changed
            in this way.
          </p>
          <p>{WORDS[action].effect} Jobs that start to match meanwhile may be included.</p>
        </>
      ),
      run: async (reason, progress) => {
        const onProgress = ({ changed }: ManyProgress) =>
          progress(`${changed.toLocaleString()} of about ${counted.matched.toLocaleString()}`)
        const { changed, refused } = await run({ onProgress }, reason)
        await queries.invalidateQueries({ queryKey: ['jobs'] })
        onDone()
        const first = refused[0]
        const left = first === undefined ? '' : `; ${refused.length} failed: #${first.id}: ${first.detail}`
        return `${count(changed, 'job')} ${WORDS[action].done}${left}`
      },
    })
  }
}

function questionOf(action: Action, priority: number, number: number): Omit<Question, 'effect' | 'run'> {
  const jobs = count(number, 'job')
  const { verb } = WORDS[action]
  return {
    title: action === 'priority' ? `Set the priority of ${jobs} to ${priority}` : `${verb} ${jobs}`,
    count: number,
    action: verb,
    danger: action === 'cancel',
    reason: 'optional',
  }
}

function PriorityForm({ onChoose, onClose }: { onChoose: (priority: number) => void; onClose: () => void }) {
  const [text, setText] = useState('0')
  const wrong = priorityMistake(text)
  return (
    <Dialog title="Set priority" onClose={onClose}>
      <form
        className="dialog-form"
        onSubmit={(event) => {
          event.preventDefault()
          if (wrong === undefined) onChoose(Number(text))
        }}
      >
        <PriorityField value={text} onChange={setText} />
        <div className="dialog-foot">
          <Button onClick={onClose}>Back</Button>
          <Button type="submit" kind="primary" disabled={wrong !== undefined}>
            Continue
          </Button>
        </div>
      </form>
    </Dialog>
  )
}
