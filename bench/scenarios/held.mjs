import { drain } from '../harness/drain.mjs'

const SLOTS = 100

export const scenario = {
  name: 'held',
  title: 'Drain of 500,000 jobs with a transaction held open for the whole run: first 10,000 against last',
  metrics: [
    { name: 'jobsPerSecond', label: 'jobs/s', better: 'higher' },
    { name: 'first', label: 'first 10,000, jobs/s', better: 'higher' },
    { name: 'last', label: 'last 10,000, jobs/s', better: 'higher' },
    { name: 'lastOverFirst', label: 'last / first', better: 'higher' },
  ],
  cases(scale) {
    const shared = { n: scale(500_000), tranche: scale(10_000), processes: 1, slots: SLOTS, waiting: true }
    return ['sluice', 'graphile-tuned'].flatMap((system) => {
      const limit = system === 'sluice' ? SLOTS : null
      const fixture = `waiting-${shared.n}`
      return [
        { id: `${system} held`, params: { ...shared, limit, held: true } },
        { id: `${system} free`, params: { ...shared, limit, held: false } },
      ].map((one) => ({ ...one, system, fixture, sweep: 'drain' }))
    })
  },
  goals: [
    {
      metric: 'jobsPerSecond',
      of: 'sluice held',
      against: ['sluice free'],
      atLeast: 0.95,
      row: 'Drain of 500,000 jobs while a transaction is held open',
      beside: 'Sluice, no transaction held',
    },
    { metric: 'lastOverFirst', of: 'sluice held', atLeast: 0.9 },
    { metric: 'jobsPerSecond', of: 'sluice held', against: ['graphile-tuned held'], atLeast: 1 },
  ],
  async prepare(measurement, { n, limit }) {
    const system = await measurement.open({ limit })
    await system.setup()
    await system.bulkEnqueue(n)
  },
  /** The first tranche is left to warm up the process; "first" is the one after it. */
  async run(measurement, params) {
    const { agents, figures } = await drain(measurement, params)
    const { n, tranche } = params
    const first = agents.rateBetween(tranche, 2 * tranche)
    const last = agents.rateBetween(n - tranche, n)
    return { ...figures, first, last, lastOverFirst: last / first }
  },
}
