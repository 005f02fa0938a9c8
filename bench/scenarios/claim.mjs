import { now } from '../harness/clock.mjs'

const SLOTS = 100

export const scenario = {
  name: 'claim',
  title: 'Cost of claiming with 1,000,000 waiting jobs against 1,000',
  metrics: [
    { name: 'serverMsPerJob', label: 'server ms/job', better: 'lower' },
    { name: 'msPerJob', label: 'wall ms/job', better: 'lower' },
  ],
  cases(scale) {
    const shared = { warmUp: scale(10_000), window: scale(30_000), processes: 1, slots: SLOTS }
    return ['sluice', 'graphile-tuned', 'pgboss'].flatMap((system) =>
      [1000, scale(1_000_000)].map((waiting, index) => ({
        id: `${system} ${index === 0 ? '1,000' : '1,000,000'}`,
        system,
        sweep: 'drain',
        fixture: `waiting-${waiting + shared.warmUp + shared.window}`,
        params: { ...shared, waiting, limit: system === 'sluice' ? SLOTS : null },
      })),
    )
  },
  goals: ['serverMsPerJob', 'msPerJob'].map((metric) => ({
    metric,
    of: 'sluice 1,000,000',
    against: ['sluice 1,000'],
    atMost: 1.2,
  })),
  async prepare(measurement, { waiting, warmUp, window, limit }) {
    const system = await measurement.open({ limit })
    await system.setup()
    await system.bulkEnqueue(waiting + warmUp + window)
  },
  /**
   * `waiting` jobs stay behind when the window ends: both sizes run the same number of jobs, and only
   * what lies behind them differs. Server time is that of all statements, finishing included.
   */
  async run(measurement, { warmUp, window, processes, slots, limit }) {
    await measurement.recordStatements()
    await measurement.checkpoint()
    const agents = await measurement.startAgents(processes, 'worker', { limit })
    await agents.askAll('work', { slots, lanes: 1, jobMs: 0 })
    await agents.untilFinished(warmUp)
    const before = { ...(await measurement.statementTotals()), finished: agents.finished, at: now() }
    await agents.untilFinished(before.finished + window * 0.9)
    const after = { ...(await measurement.statementTotals()), finished: agents.finished, at: now() }
    const jobs = after.finished - before.finished
    return {
      serverMsPerJob: (after.ms - before.ms) / jobs,
      msPerJob: (after.at - before.at) / jobs,
      statements: await measurement.topStatements(),
    }
  },
}
