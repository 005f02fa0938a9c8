import { ClaimLatency } from '../../src/engine/dispatch/claim-latency.ts'
import { noteLateWrites } from '../../src/engine/leases/late-writes.ts'
import { readLaneChanges } from '../../src/engine/operate/lane-control.ts'
import { NameKinds } from '../../src/engine/operate/name-kinds.ts'
import { EventCounter } from '../../src/engine/views/event-counter.ts'
import { readNow, readSeries } from '../../src/engine/views/now.ts'
import { ReadinessProbe } from '../../src/engine/views/readiness.ts'
import { readRecoveries } from '../../src/engine/views/recoveries.ts'
import { systemStatus } from '../../src/engine/views/system-status.ts'
import { hasCode, type Sluice } from '../../src/index.ts'
import { recordLateEndings } from '../../src/store/record-late-endings.ts'
import { repeated } from './persistent-caller.ts'
import { patiently } from './until.ts'

/** What a server looks at and sets up, on an address where any statement may fail. */
export async function liveServer(app: Sluice): Promise<void> {
  const { calls } = app.services
  await repeated('check a name', () => new NameKinds(calls).check('plain', 'task'))
  await repeated('systemStatus', () => systemStatus(calls))
  await repeated('readNow', () => readNow(calls))
  await repeated('readSeries', () => readSeries(calls, 5))
  // For people only: neither is worth a second try.
  await noteLateWrites(calls, 'life', ['1'], 'made up')
  await recordLateEndings(calls, { id: '1', name: 'life' }, [{ id: '1', attempt: 99 }], 'made up').catch(
    () => [],
  )
  const tally = new EventCounter(calls, 'life')
  tally.add()
  await tally.close()
  await repeated('readRecoveries', () => readRecoveries(calls, { limit: 5 }))
  await repeated('readLaneChanges', () => readLaneChanges(calls, 'life'))
  const watch = new ClaimLatency(calls)
  await repeated('the first look at claims', () => watch.look())
  await repeated('the next look at claims', () => watch.look())
  // It says so when it cannot look, and is asked again.
  await patiently(
    async () => (await new ReadinessProbe(calls).look()).database === 'ok',
    'the server to be ready',
  )
}

/**
 * An operator asks a worker to end. One that was declared dead meanwhile comes back and is asked again; one that is not
 * there after an answer was lost has heard it.
 */
export async function askToLeave(app: Sluice, name: string): Promise<void> {
  let unsure = false
  await patiently(async () => {
    try {
      return await app.stopWorker(name)
    } catch (error) {
      if (hasCode(error, 'WORKER_NOT_FOUND')) return unsure
      if (!hasCode(error, 'DATABASE_UNAVAILABLE')) throw error
      unsure = true
      return false
    }
  }, `worker ${name} to be there`)
}
