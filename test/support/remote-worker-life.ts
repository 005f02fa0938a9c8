import { setTimeout as delay } from 'node:timers/promises'
import type { Database } from '../../src/db/database.ts'
import { translateError } from '../../src/db/sqlstate.ts'
import { transactWithRetries, withRetries } from '../../src/db/with-retries.ts'
import { WorkerSession } from '../../src/engine/dispatch/worker-session.ts'
import {
  appendRemoteLogs,
  closeRemoteWorker,
  findRemoteWorkers,
  loadRemoteCheckpoint,
  loadRemoteStep,
  registerRemoteWorkers,
  reportBroken,
  reportWithdrawn,
  saveRemoteCheckpoint,
  saveRemoteProgress,
  saveRemoteStep,
} from '../../src/engine/leases/remote-workers.ts'
import { hasCode, type Sluice } from '../../src/index.ts'
import type { Assignment, EndedAttempt } from '../../src/model/assignment.ts'
import { beat, sendHeartbeats } from '../../src/store/heartbeat.ts'
import { loadOrders } from '../../src/store/load-orders.ts'
import { loadStale } from '../../src/store/load-stale.ts'
import { resyncWorkers } from '../../src/store/resync-worker.ts'
import { shareProcesses } from '../../src/store/share-processes.ts'
import { restoreTask } from '../../src/store/withdraw-task.ts'
import { repeated } from './persistent-caller.ts'

const KEY = '1'
const TASK = {
  name: 'remote',
  lane: 'default',
  model: null,
  requires: {},
  priority: 0,
  approval: false,
  deadlineMs: null,
  maxLosses: 1000,
  onLost: 'retry',
} as const

const SILENT = { debug() {}, info() {}, warn() {}, error() {} }
let tasks = 0
/** One that nobody has made known yet. */
function newTask() {
  return { ...TASK, name: `remote-${process.pid}-${tasks++}` }
}

/**
 * What a server does for a worker behind it, on an address where any statement may fail: the worker repeats what it was not
 * answered, and starts over when it was declared dead meanwhile.
 */
export async function liveRemotely(app: Sluice, db: Database, round: number): Promise<string[]> {
  const violations: string[] = []
  const calls = withRetries(db)
  const call = <T>(what: string, work: () => Promise<T>) =>
    repeated(what, () =>
      work().catch((error: unknown) => {
        throw translateError(error)
      }),
    )
  const register = async () => {
    const identity = { name: `remote-${round}`, host: '', pid: 0, version: '', capacity: 4, cores: 1 }
    const facts = { ...identity, tasks: [TASK.name], labels: {}, keyId: KEY, processLimit: 1 }
    for (;;) {
      const [registered] = await call('register', () =>
        transactWithRetries(db, (tx) =>
          registerRemoteWorkers(tx, [facts], [TASK, newTask()], TASK, { lanes: ['*'], highestPriority: 100 }),
        ),
      )
      const { id } = registered!
      const [worker] = await call('find', () => findRemoteWorkers(calls, [id]))
      // It may have been declared dead meanwhile.
      if (worker === undefined) continue
      const session = new WorkerSession({
        db: calls,
        connection: db,
        tasks: worker.tasks,
        labels: worker.labels,
        processTasks: new Set(worker.pooled),
        log: SILENT,
        hears: () => true,
        resync: async (workerId) => (await resyncWorkers(db, [workerId])).get(workerId),
      })
      session.follow(id)
      return { id, session }
    }
  }

  let { id, session } = await register()
  const held = await call('processes', () => shareProcesses(calls, id, 0))
  if (held !== undefined && held > 1) violations.push(`${id} has ${held} processes on one core`)
  const job = await repeated('submit', () => app.submit(TASK.name, null, { key: `remote-${round}` }))
  let ended: EndedAttempt[] = []
  while ((await repeated('getJob', () => app.getJob(job.id))).status !== 'completed') {
    try {
      const beats = await call('beat', () => sendHeartbeats(db, [id]))
      if (!beats.has(id)) await call('beat', () => beat(db, id))
      const request = { ended, running: () => [], free: 4, freeProcesses: 0 }
      const { assignments } = await call('cycle', () => session.cycle(request))
      ended = []
      for (const assignment of assignments) ended.push(await run(id, assignment))
      if (ended.length === 0) await delay(5)
    } catch (error) {
      const cause = error instanceof Error ? error.cause : undefined
      if (!hasCode(cause, 'WORKER_NOT_FOUND') && !hasCode(cause, 'LEASE_LOST')) throw error
      ended = []
      ;({ id, session } = await register())
    }
  }
  await call('giveBack', () => session.giveBack())
  const [orders] = await call('orders', () => loadOrders(calls, [id]))
  if (orders !== undefined && orders.cancels.length > 0)
    violations.push(`${id} is to cancel what nobody cancelled`)
  await call('stale', () => loadStale(calls))
  const failed = { task: TASK.name, why: 'life is short', retryMs: 1 }
  await ignoringEnd(() => call('withdraw', () => reportWithdrawn(calls, id, failed)))
  await call('restore', () => restoreTask(calls, id, TASK.name))
  await ignoringEnd(() => call('broken', () => reportBroken(calls, id, 'life is hard')))
  await ignoringEnd(() => call('close', () => closeRemoteWorker(calls, id, 'life is over')))
  return violations

  async function run(workerId: string, { id: jobId, attempt }: Assignment): Promise<EndedAttempt> {
    const lease = { jobId, attempt, workerId }
    const line = { id: jobId, attempt, at: new Date().toISOString(), level: 'info', line: 'here' }
    const refused = await call('logs', () => appendRemoteLogs(calls, workerId, [line]))
    if (refused.length > 0) violations.push(`a line of job ${jobId} was refused to its own worker`)
    const note = { id: jobId, attempt, progress: 0.5, message: null }
    await call('progress', () => saveRemoteProgress(calls, workerId, [note]))
    const stored = await call('saveStep', () => saveRemoteStep(calls, lease, 'step', String(attempt)))
    const loaded = await call('loadStep', () => loadRemoteStep(calls, lease, 'step'))
    if (loaded?.result !== stored) violations.push(`the step of job ${jobId} changed`)
    await call('saveCheckpoint', () => saveRemoteCheckpoint(calls, lease, '"there"'))
    const kept = await call('loadCheckpoint', () => loadRemoteCheckpoint(calls, lease))
    if (kept !== 'there') violations.push(`the checkpoint of job ${jobId} is ${JSON.stringify(kept)}`)
    return { id: jobId, attempt, ending: { kind: 'completed', result: '1' } }
  }
}

/** It may have been declared dead, or an earlier try may have been carried out. */
async function ignoringEnd(work: () => Promise<unknown>): Promise<void> {
  await work().catch((error: Error) => {
    if (!hasCode(error.cause, 'WORKER_NOT_FOUND')) throw error
  })
}
