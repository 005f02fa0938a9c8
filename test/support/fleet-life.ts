import { forgetPoolChanges, getPool, setPool } from '../../src/engine/pool-control.ts'
import type { Sluice } from '../../src/index.ts'
import { repeated } from './persistent-caller.ts'

/** What programs say of pools where `liveFleet` lives. */
export const LIFE_POOLS = { life: { min: 0, max: 2 } }

/** Pools that are changed and set back, on an address where any statement may fail. */
export async function liveFleet(app: Sluice): Promise<string[]> {
  const { calls } = app.room
  await repeated('setPool', () => setPool(calls, 'life', { max: 7, idle: '5m' }, 'life'))
  const { max, idleMs } = await repeated('getPool', () => getPool(calls, 'life'))
  const again = await repeated('forgetPoolChanges', () => forgetPoolChanges(calls, 'life', 'life'))
  const seen = [max, idleMs, again.max, again.idleMs].join()
  return seen === '7,300000,2,60000' ? [] : [`a pool went through ${seen}`]
}
