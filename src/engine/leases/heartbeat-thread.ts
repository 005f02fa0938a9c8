import { workerData } from 'node:worker_threads'
import { Connection } from '../../db/connection.ts'
import { sqlState } from '../../db/sqlstate.ts'
import type { BlockedLoop } from '../../model/blocked-loop.ts'
import { handBack } from '../../store/hand-back.ts'
import { beat, type HeartbeatReply } from '../../store/heartbeat.ts'
import type { DatabaseBeats, ThreadData } from './heartbeat.ts'
import { keepBeating } from './heartbeat-loop.ts'
import { watchAssigned } from './watch-assigned.ts'

// The heartbeat thread of a worker with direct database access.

const { target, heartbeatMs, workerId, shared } = workerData as ThreadData & {
  readonly target: DatabaseBeats
}

/**
 * A new connection gets at least this long, however short the heartbeat. On a busy machine the login and the first beat, which
 * the server has to plan, take hundreds of milliseconds: with a shorter limit each new connection would be given up like the one before.
 */
const SHORTEST_OPEN_MS = 1000

const connection = new Connection({
  url: target.url,
  applicationName: 'sluice-heartbeat',
  timeoutMs: heartbeatMs,
  openMs: Math.max(SHORTEST_OPEN_MS, heartbeatMs),
})
/** The worker as of the last beat. */
let beatFor = workerId
/** The beat sent last, which may be under way after its sender gave up. */
let last: Promise<unknown> = Promise.resolve()

/** Fails within a heartbeat. A connection that is being opened is left to its own limit, and a later beat finds it open. */
async function send(workerId: string, blocked: BlockedLoop | undefined): Promise<HeartbeatReply | undefined> {
  beatFor = workerId
  let timer: NodeJS.Timeout | undefined
  let isLate = false
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      isLate = true
      reject(new Error(`PostgreSQL has not answered within one heartbeat (${heartbeatMs} ms)`))
    }, heartbeatMs)
  })
  const answer = last.then(() => (isLate ? undefined : beat(connection, workerId, blocked)))
  last = answer.catch(() => {})
  try {
    return await Promise.race([answer, late])
  } finally {
    clearTimeout(timer)
  }
}

watchAssigned(shared, target.assigned, {
  // Beats share the connection, so this waits only for a moment where another session has locked a claim.
  handBack: ({ ids, known, epoch }) => handBack(connection, beatFor, ids, known, epoch),
})
keepBeating({
  beat: send,
  isAnswer: (error) => sqlState(error) !== undefined,
  close: () => connection.close(),
})
