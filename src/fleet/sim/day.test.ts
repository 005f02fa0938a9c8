import { expect, test } from 'vitest'
import { POOL_DEFAULTS } from '../../model/pool.ts'
import { type DayOptions, playDay } from './day.ts'

const USUAL: DayOptions = {
  idleMs: POOL_DEFAULTS.idleMs!,
  order: 'fill',
  max: 60,
  cooldownMs: POOL_DEFAULTS.cooldownMs,
  startMs: 30_000,
  jobMs: 20_000,
  every: 1,
}
/** From far too short to half an hour, closer together around the default. */
const TIMEOUTS = [5, 15, 30, 40, 50, 55, 60, 65, 70, 80, 120, 300, 600, 1800].map((seconds) => seconds * 1000)

test('a day with peaks costs at most 1.15 times the best idle timeout chosen afterwards at the same waiting time', () => {
  const ours = playDay(USUAL)
  const all = TIMEOUTS.map((idleMs) => ({ idleMs, ...playDay({ ...USUAL, idleMs }) }))
  const best = all
    // The same waiting time, give or take a twentieth.
    .filter(({ meanWaitMs }) => meanWaitMs <= ours.meanWaitMs * 1.05)
    .reduce((least, each) => (each.workerHours < least.workerHours ? each : least))
  const inTurn = playDay({ ...USUAL, order: 'round-robin' })
  const light = playDay({ ...USUAL, every: 10 })
  const lightInTurn = playDay({ ...USUAL, every: 10, order: 'round-robin' })

  // For the table in the guide.
  if (process.env.SLUICE_FLEET_TABLE !== undefined) console.table([ours, inTurn, light, lightInTurn, ...all])
  expect(ours.workerHours / best.workerHours).toBeLessThanOrEqual(1.15)
  expect(ours.workerHours).toBeLessThan(inTurn.workerHours)
  expect(light.workerHours).toBeLessThan(lightInTurn.workerHours)
}, 60_000)
