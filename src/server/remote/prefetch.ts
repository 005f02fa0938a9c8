import type { CycleBody } from '../../api/worker-protocol.ts'
import type { WorkerSession } from '../../engine/dispatch/worker-session.ts'
import type { CycleAnswer, JobAttempt, Prefetch } from '../../model/assignment.ts'
import { taskInLane } from '../../model/task-in-lane.ts'

/** What a worker says of jobs that it is assigned beyond its slots, as it comes over HTTP. */
export interface RemotePrefetch {
  /** How many more jobs to assign, by task and lane; 0 where some are assigned already, and are enough. */
  readonly ahead: ReadonlyMap<string, number>
  /** Assigned jobs that had not started when it sent this. They may have by now. */
  readonly waiting: readonly JobAttempt[]
  /** How many slots it uses until the answer comes, by lane. */
  readonly slots: ReadonlyMap<string, number>
  /** The newest claim that it knew of, and the epoch of its holdings then. */
  readonly newestClaim: number
  readonly epoch: number | undefined
  /** More endings follow, which make room for what has started. */
  readonly isPartial: boolean
}

/** An answer, with what the worker has been given by then. */
export type RemoteAnswer = CycleAnswer & { readonly seen?: string }

/** What the answer says when nothing was done. */
export const RECALL: CycleAnswer = {
  assignments: [],
  lost: [],
  refused: [],
  again: false,
  recall: true,
}

/** The worker has to hand back first what is waiting: only it knows whether it has started meanwhile. */
export class RecallFirst extends Error {}

/** What the worker has been given up to now, as a text that it sends back. */
export function seenBy({ epoch, known }: Pick<WorkerSession, 'epoch' | 'known'>): string {
  return `${epoch}.${known}`
}

export function readSeen(seen: string): { readonly epoch: number; readonly newestClaim: number } {
  const [epoch, claim] = seen.split('.')
  return { epoch: Number(epoch), newestClaim: Number(claim) }
}

export function toPrefetch(body: NonNullable<CycleBody['prefetch']>): RemotePrefetch {
  const { ahead = [], waiting = [], slots = {}, seen, partial = false } = body
  const { epoch, newestClaim = 0 } = seen === undefined ? {} : readSeen(seen)
  return {
    ahead: new Map(ahead.map(({ task, lane, jobs }) => [taskInLane(task, lane), jobs])),
    waiting,
    slots: new Map(Object.entries(slots)),
    newestClaim,
    epoch,
    isPartial: partial,
  }
}

/**
 * What the session of a worker behind a server asks of it. The request may be late: answers to older ones may have given the worker more jobs
 * since. So what it leaves out is not taken back, and no slot is released by it.
 */
export function prefetchOf(
  { ahead, waiting, slots, newestClaim, epoch, isPartial }: RemotePrefetch,
  running: readonly JobAttempt[],
  session: WorkerSession,
): Prefetch {
  let started: ReadonlyMap<string, number> | undefined
  let held: ReadonlyMap<string, number> | undefined
  const isLate = () => epoch !== session.epoch || newestClaim < session.known
  return {
    newestClaim,
    ahead(task, lane, most) {
      const jobs = isLate() ? 0 : (ahead.get(taskInLane(task, lane)) ?? 0)
      return jobs === 0 ? 0 : Math.max(0, Math.min(jobs, most - countIn(lane, waiting, session)))
    },
    // The worker has asked for no more than it has room for.
    room: () => Number.POSITIVE_INFINITY,
    holds: (task, lane) => ahead.has(taskInLane(task, lane)),
    isWaiting(id) {
      if (isPartial) return true
      started ??= new Map(running.map((each) => [each.id, each.attempt]))
      return started.get(id) !== session.held.get(id)?.attempt
    },
    slots(lane) {
      held ??= countHeld(session)
      const most = held.get(lane) ?? 0
      return isLate() ? most : Math.min(slots.get(lane) ?? 0, most)
    },
    recall() {
      if (waiting.length > 0) throw new RecallFirst('assigned jobs have to be handed back first')
    },
  }
}

function countIn(lane: string, jobs: readonly JobAttempt[], { held }: WorkerSession): number {
  let count = 0
  for (const { id } of jobs) if (held.get(id)?.lane === lane) count++
  return count
}

function countHeld({ held }: WorkerSession): ReadonlyMap<string, number> {
  const counts = new Map<string, number>()
  for (const { lane } of held.values()) counts.set(lane, (counts.get(lane) ?? 0) + 1)
  return counts
}
