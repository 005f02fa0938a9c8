import { drain } from '../harness/drain.mjs'

/**
 * Pairs with limits on and off. `on` and `off` are processes x slots; where the limit is half the
 * demand, `off` is as many unlimited workers as fit the limit. `n` is smaller where a job takes longer, so that all take
 * about as long.
 */
const PAIRS = [
  { id: '1x200', on: [1, 200], off: [1, 200], limit: 200, n: 100_000 },
  { id: '4x25', on: [4, 25], off: [4, 25], limit: 100, n: 60_000 },
  { id: '8x25', on: [8, 25], off: [8, 25], limit: 200, n: 60_000 },
  { id: '16x5', on: [16, 5], off: [16, 5], limit: 80, n: 30_000 },
  { id: '8x25 at limit 100', on: [8, 25], off: [4, 25], limit: 100, n: 60_000 },
  { id: '16x5 at limit 40', on: [16, 5], off: [8, 5], limit: 40, n: 30_000 },
  { id: '8x10, two lanes', on: [8, 10], off: [8, 10], limit: 80, lanes: 2, n: 60_000 },
]

export const scenario = {
  name: 'limits',
  title:
    'Limits on against limits off, prefetch off: drain of 30,000 to 100,000 jobs, processes x slots, one PostgreSQL',
  metrics: [{ name: 'jobsPerSecond', label: 'jobs/s', better: 'higher' }],
  cases(scale) {
    return variants().flatMap(({ pair, held, suffix }) => {
      const shared = { n: scale(pair.n), held, lanes: pair.lanes ?? 1 }
      const on = { ...shared, processes: pair.on[0], slots: pair.on[1], limit: pair.limit }
      const off = { ...shared, processes: pair.off[0], slots: pair.off[1], limit: null }
      const name = `${pair.id}${suffix}`
      return [
        { id: `${name}: limits on`, system: 'sluice', params: { ...on, prefetch: 0 } },
        { id: `${name}: limits off`, system: 'sluice', params: { ...off, prefetch: 0 } },
        { id: `${name}: before`, system: 'sluice-before', params: on },
        // Not part of a normal run: `--systems graphile-tuned` puts a peer through the same shapes.
        {
          id: `${name}: graphile-tuned`,
          system: 'graphile-tuned',
          optional: true,
          params: off,
          sweep: 'drain',
        },
      ]
    })
  },
  goals: variants().flatMap(({ pair, suffix }) => {
    const of = `${pair.id}${suffix}: limits on`
    return [
      {
        metric: 'jobsPerSecond',
        of,
        against: [`${pair.id}${suffix}: limits off`],
        atLeast: 0.95,
        row: 'Drain with lane limits, prefetch off, 14 combinations (workers, limits, lanes, held transaction)',
        beside: 'Sluice without lane limits',
      },
      {
        metric: 'jobsPerSecond',
        of,
        against: [`${pair.id}${suffix}: before`],
        atLeast: 1,
        row: 'Drain with lane limits, prefetch off, the same 14 combinations',
      },
    ]
  }),
  async run(measurement, params) {
    return (await drain(measurement, params)).figures
  },
}

function variants() {
  return [false, true].flatMap((held) =>
    PAIRS.map((pair) => ({ pair, held, suffix: held ? ', transaction held' : '' })),
  )
}
