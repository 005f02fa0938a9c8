import { percentile } from '../harness/statistics.mjs'

const [PROCESSES, SLOTS, JOB_MS] = [16, 5, 40]
// 80 slots and 40 ms of work make 2,000 jobs/s; half of that arrives.
const RATE = 1000

const METRICS = [
  { name: 'startP50', label: 'start p50 ms', better: 'lower' },
  { name: 'startP99', label: 'start p99 ms', better: 'lower' },
  { name: 'finishP50', label: 'finish p50 ms', better: 'lower' },
  { name: 'finishP99', label: 'finish p99 ms', better: 'lower' },
]

export const scenario = {
  name: 'live',
  title: 'Live arrivals at half capacity: 1,000 jobs/s of 40 ms on 16 x 5 slots, limit on and off',
  metrics: METRICS,
  cases(scale) {
    const shared = {
      processes: PROCESSES,
      slots: SLOTS,
      jobMs: JOB_MS,
      rate: RATE,
      seconds: scale.seconds(30),
    }
    return [false, true].flatMap((held) => {
      const suffix = held ? ', transaction held' : ''
      return [
        { id: `limits on${suffix}`, system: 'sluice', params: { ...shared, held, limit: PROCESSES * SLOTS } },
        { id: `limits off${suffix}`, system: 'sluice', params: { ...shared, held, limit: null } },
        { id: `graphile${suffix}`, system: 'graphile', params: { ...shared, held } },
        { id: `pgboss-notify${suffix}`, system: 'pgboss-notify', params: { ...shared, held } },
      ].map((one) => ({ ...one, server: 'commitTimes' }))
    })
  },
  // "Limits on at least 0.9 of limits off", read for times: at most 1 / 0.9.
  goals: ['', ', transaction held'].flatMap((suffix) =>
    METRICS.map(({ name }) => ({
      metric: name,
      of: `limits on${suffix}`,
      against: [`limits off${suffix}`],
      atMost: 1.11,
    })),
  ),
  /**
   * Start: from before the submission to the handler's first line. Finish: from before the submission
   * to the commit of the outcome, less the work itself; known where finished rows are kept.
   */
  async run(measurement, { processes, slots, jobMs, rate, seconds, held, limit = null }) {
    const system = await measurement.open({ limit })
    await system.setup()
    const workers = await measurement.startAgents(processes, 'worker', { limit })
    await workers.askAll('work', { slots, lanes: 1, jobMs })
    if (held) await measurement.holdTransaction()
    const producer = await measurement.startAgents(1, 'producer', { limit })
    const [{ total, lags }] = await producer.askAll('arrive', { rate, seconds, warmSeconds: 3 })
    await workers.untilFinished(total)
    await measurement.untilDurable(system)
    const starts = (await workers.askAll('startDelays')).flat()
    const finishes = ((await system.finishDelays?.()) ?? []).map((ms) => ms - jobMs)
    return {
      startP50: percentile(starts, 0.5),
      startP99: percentile(starts, 0.99),
      finishP50: percentile(finishes, 0.5),
      finishP99: percentile(finishes, 0.99),
      producerLagP99: percentile(lags, 0.99),
      jobs: starts.length,
    }
  },
}
