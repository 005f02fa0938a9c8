import { drain } from '../harness/drain.mjs'

const SLOTS = 100
const PEERS = ['graphile', 'graphile-tuned', 'pgboss', 'bullmq', 'bullmq-always', 'bullmq-postgres']

export const scenario = {
  name: 'drain',
  title: 'Drain of 100,000 waiting no-op jobs, one process, 100 slots',
  metrics: [{ name: 'jobsPerSecond', label: 'jobs/s', better: 'higher' }],
  cases(scale) {
    const params = { n: scale(100_000), processes: 1, slots: SLOTS }
    return [
      {
        id: 'sluice',
        label: 'Sluice, lane limit 100',
        system: 'sluice',
        params: { ...params, limit: SLOTS },
      },
      { id: 'sluice-unlimited', label: 'Sluice, no limit', system: 'sluice', params },
      ...PEERS.map((system) => ({ id: system, system, params })),
      ...['sluice', 'graphile-tuned', 'pgboss'].map((system) => ({
        id: `${system}@embedded`,
        label: `${system}, server with embedded defaults`,
        system,
        server: 'embedded',
        params: system === 'sluice' ? { ...params, limit: SLOTS } : params,
      })),
    ]
  },
  goals: [
    { metric: 'jobsPerSecond', of: 'sluice', against: ['graphile-tuned'], atLeast: 1.5, aim: 2 },
    { metric: 'jobsPerSecond', of: 'sluice', against: ['pgboss'] },
    { metric: 'jobsPerSecond', of: 'sluice', against: ['bullmq'] },
    { metric: 'jobsPerSecond', of: 'sluice', against: ['sluice-unlimited'], atLeast: 0.9 },
    { metric: 'jobsPerSecond', of: 'sluice@embedded', against: ['graphile-tuned@embedded'], atLeast: 1.5 },
  ],
  async run(measurement, params) {
    return (await drain(measurement, params)).figures
  },
}
