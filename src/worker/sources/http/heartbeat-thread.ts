import { workerData } from 'node:worker_threads'
import { keepBeating } from '../../../engine/beat-loop.ts'
import type { ThreadData } from '../../../engine/heartbeat.ts'
import { hasCode } from '../../../errors.ts'
import { type ServerAddress, ServerLink } from './server-link.ts'

// The thread of a worker that speaks to a server.

const { target, heartbeatMs } = workerData as ThreadData & { readonly target: ServerAddress }
const link = new ServerLink(target)
const closing = new AbortController()

keepBeating({
  async beat(workerId, blocked) {
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
