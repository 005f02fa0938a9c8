import { workerData } from 'node:worker_threads'
import type { HandBackBody } from '../../../api/worker-protocol.ts'
import type { ThreadData } from '../../../engine/leases/heartbeat.ts'
import { keepBeating } from '../../../engine/leases/heartbeat-loop.ts'
import { watchAssigned } from '../../../engine/leases/watch-assigned.ts'
import { hasCode } from '../../../errors.ts'
import { type ServerAddress, ServerLink } from './server-link.ts'

// The thread of a worker that speaks to a server.

/** What the thread of a worker behind a server needs to know. */
export interface ServerBeats extends ServerAddress {
  /** The memory of its `AssignedCells`. */
  readonly assigned: SharedArrayBuffer
}

const { target, heartbeatMs, workerId, shared } = workerData as ThreadData & { readonly target: ServerBeats }
const link = new ServerLink(target)
const closing = new AbortController()
/** The worker as of the last beat. */
let beatFor = workerId

watchAssigned(shared, target.assigned, {
  async handBack({ ids, known, epoch }) {
    const body: HandBackBody = { jobs: [...ids], seen: `${epoch}.${known}` }
    const options = { timeoutMs: heartbeatMs, signal: closing.signal }
    await link.post(`/workers/${beatFor}/hand-back`, body, options)
  },
})

keepBeating({
  async beat(workerId, blocked) {
    beatFor = workerId
    try {
      return await link.post(`/workers/${workerId}/heartbeat`, blocked && { blocked }, {
        timeoutMs: heartbeatMs,
        signal: closing.signal,
      })
    } catch (error) {
      if (hasCode(error, 'WORKER_NOT_FOUND')) return undefined
      throw error
    }
  },
  async close() {
    closing.abort()
  },
})
