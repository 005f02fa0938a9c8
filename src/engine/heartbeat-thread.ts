import { workerData } from 'node:worker_threads'
import { Connection } from '../db/connection.ts'
import { sqlState } from '../db/sqlstate.ts'
import { beat } from '../store/beat.ts'
import { keepBeating } from './beat-loop.ts'
import type { ThreadData } from './heartbeat.ts'

// The thread of a worker that speaks to the database itself.

const { target, heartbeatMs } = workerData as ThreadData & { readonly target: { readonly url: string } }
const connection = new Connection({
  url: target.url,
  applicationName: 'sluice-heartbeat',
  timeoutMs: heartbeatMs,
})

keepBeating({
  beat: (workerId) => beat(connection, workerId),
  isAnswer: (error) => sqlState(error) !== undefined,
  close: () => connection.close(),
})
