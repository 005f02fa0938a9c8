import { drain } from '../harness/drain.mjs'

/**
 * Pairs with limits on and off. `on` and `off` are processes x slots; where the limit is half the
 * demand, `off` is as many unlimited workers as fit the limit.
 */
const PAIRS = [
  { id: '1x200', on: [1, 200], off: [1, 200], limit: 200 },
  { id: '4x25', on: [4, 25], off: [4, 25], limit: 100 },
  { id: '8x25', on: [8, 25], off: [8, 25], limit: 200 },
  { id: '16x5', on: [16, 5], off: [16, 5], limit: 80 },
  { id: '8x25 at limit 100', on: [8, 25], off: [4, 25], limit: 100 },
  { id: '16x5 at limit 40', on: [16, 5], off: [8, 5], limit: 40 },
  { id: '8x10, two lanes', on: [8, 10], off: [8, 10], limit: 80, lanes: 2 },
]

export const scenario = {
  name: 'limits',
  title: 'Limits on against limits off: drain of 100,000 jobs, processes x slots, one PostgreSQL',
  metrics: [{ name: 'jobsPerSecond', label: 'jobs/s', better: 'higher' }],
  cases(scale) {
    const n = scale(100_000)
    return variants().flatMap(({ pair, held, suffix }) => {
      const shared = { n, held, lanes: pair.lanes ?? 1 }
      const on = { ...shared, processes: pair.on[0], slots: pair.on[1], limit: pair.limit }
      const off = { ...shared, processes: pair.off[0], slots: pair.off[1], limit: null }
      return [
        { id: `${pair.id}${suffix}: limits on`, system: 'sluice', params: on },
        { id: `${pair.id}${suffix}: limits off`, system: 'sluice', params: off },
        // Not part of a normal run: `--systems graphile-tuned` puts a peer through the same shapes.
        { id: `${pair.id}${suffix}: graphile-tuned`, system: 'graphile-tuned', optional: true, params: off },
      ]
    })
  },
  goals: variants().map(({ pair, suffix }) => ({
    metric: 'jobsPerSecond',
    of: `${pair.id}${suffix}: limits on`,
    against: [`${pair.id}${suffix}: limits off`],
    atLeast: 0.9,
  })),
  async run(measurement, params) {
    return (await drain(measurement, params)).figures
  },
}

function variants() {
  return [false, true].flatMap((held) =>
    PAIRS.map((pair) => ({ pair, held, suffix: held ? ', transaction held' : '' })),
  )
}
