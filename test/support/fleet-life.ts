import { randomUUID } from 'node:crypto'
import { forgetPoolChanges, getPool, setPool } from '../../src/engine/operate/pool-control.ts'
import { viewFleet } from '../../src/engine/views/fleet-view.ts'
import type { Sluice } from '../../src/index.ts'
import { addJobsDone } from '../../src/store/add-jobs-done.ts'
import { askForWorkers } from '../../src/store/ask-for-workers.ts'
import { deletePool } from '../../src/store/delete-pool.ts'
import { endAbandonedRequests } from '../../src/store/end-abandoned-requests.ts'
import { endRequest } from '../../src/store/end-request.ts'
import { endWorker } from '../../src/store/end-worker.ts'
import { readPoolSnapshot } from '../../src/store/read-pool-snapshot.ts'
import { recordGoneInstances } from '../../src/store/record-gone-instances.ts'
import { recordOverflow } from '../../src/store/record-overflow.ts'
import { recordStartedInstances } from '../../src/store/record-started-instances.ts'
import { recordStoppedInstances } from '../../src/store/record-stopped-instances.ts'
import { registerWorker } from '../../src/store/register-worker.ts'
import { retireWorker } from '../../src/store/retire-worker.ts'
import { takeRequest } from '../../src/store/take-request.ts'
import { takeStops } from '../../src/store/take-stops.ts'
import { undrainWorkers } from '../../src/store/undrain-workers.ts'
import { repeated } from './persistent-caller.ts'

/** What programs say of pools where `liveFleet` lives. */
export const LIFE_POOLS = { life: { min: 0, max: 2 } }

/** Pools that are changed and set back, on an address where any statement may fail. */
export async function liveFleet(app: Sluice): Promise<string[]> {
  const { calls } = app.services
  await repeated('setPool', () => setPool(calls, 'life', { max: 7, idle: '5m' }, 'life'))
  const { max, idleMs } = await repeated('getPool', () => getPool(calls, 'life'))
  const again = await repeated('forgetPoolChanges', () => forgetPoolChanges(calls, 'life', 'life'))
  const seen = [max, idleMs, again.max, again.idleMs].join()
  const { found } = await repeated('deletePool', () => deletePool(calls, 'gone'))
  const problems = [
    ...(seen === '7,300000,2,60000' ? [] : [`a pool went through ${seen}`]),
    ...(found ? ['a pool that nobody declared was deleted'] : []),
  ]
  return [...problems, ...(await liveRequest(app)), ...(await leave(app))]
}

/** A worker without work. Asked for again because the answer was lost, it has been let go already. */
async function leave(app: Sluice): Promise<string[]> {
  const { calls } = app.services
  const idler = { host: 'h', pid: 1, version: '0', capacity: 1, cores: 1, tasks: [], labels: {} }
  const id = await repeated('register', () =>
    registerWorker(calls, { ...idler, name: 'idler', pool: 'life' }),
  )
  await repeated('note done', () => addJobsDone(calls, [{ workerId: id, jobs: 1 }]))
  await repeated('retire', () => retireWorker(calls, id, 120_000))
  const left = (await repeated('listWorkers', () => app.listWorkers())).find((each) => each.id === id)
  await repeated('end', () => endWorker(calls, id, 'left'))
  return left === undefined || left.draining ? [] : ['an idle worker was not let go']
}

/** A request for workers from its beginning to its end. However answers are lost, there is one, and it ends. */
async function liveRequest(app: Sluice): Promise<string[]> {
  const { calls } = app.services
  const ask = async () => {
    const seen = (await readPoolSnapshot(calls, 'life', 0))!
    // Left open by a life that was cut off.
    if (seen.request !== null) await endRequest(calls, seen.request.id, 'failed', 'nobody was there')
    const asked = {
      pool: 'life',
      token: randomUUID(),
      count: 5,
      reason: 'life',
      overflow: [],
      by: 'life',
      callMs: 0,
    }
    await askForWorkers(calls, { ...asked, seen: (await readPoolSnapshot(calls, 'life', 0))!.newest })
    return (await readPoolSnapshot(calls, 'life', 0))!.request
  }
  const request = await repeated('ask', ask)
  if (request === null) return ['a request for workers was not made, or was ended by nobody']
  const { id, wanted } = request
  await repeated('end forsaken', () => endAbandonedRequests(calls, 3_600_000))
  await repeated('take', () => takeRequest(calls, id, 0))
  const started = { instances: [{ member: 1, id: 'i-1' }], failures: [{ member: 2, message: 'no room' }] }
  await repeated('note started', () => recordStartedInstances(calls, id, started))
  await repeated('note gone', () => recordGoneInstances(calls, id, 1))
  await repeated('end', () => endRequest(calls, id, 'expired', 'none came'))
  const left = (await repeated('take stops', () => takeStops(calls, 'life', 0))).find(
    (each) => each.id === id,
  )
  await repeated('note stopped', () => recordStoppedInstances(calls, left ?? { id, tries: 1 }, null))
  await repeated('note overflow', () =>
    recordOverflow(calls, 'life', [{ jobs: 3, lane: 'default', reason: 'life' } as { jobs: number }]),
  )
  await repeated('no overflow', () => recordOverflow(calls, 'life', []))
  await repeated('bring back', () =>
    undrainWorkers(calls, 'life', '0', 1, { reason: 'life', overflow: [], by: 'life' }),
  )
  const { decisions } = await repeated('view', () => viewFleet(calls, { pool: 'life' }))
  const seen = decisions.find((decision) => decision.id === id)
  const told = [
    wanted,
    seen?.outcome,
    seen?.started,
    decisions.filter(({ endedAt }) => endedAt === null).length,
  ]
  const problems =
    told.join() === '2,expired,1,0' ? [] : [`a request for workers went through ${told.join()}`]
  return left?.instances.join() === 'i-1'
    ? problems
    : [...problems, 'an instance that was left is stopped by nobody']
}
