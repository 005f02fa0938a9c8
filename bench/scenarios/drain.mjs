import { DRAIN_METRICS, drain } from '../harness/drain.mjs'

const SLOTS = 100
const PEERS = ['graphile', 'graphile-tuned', 'pgboss', 'bullmq', 'bullmq-always', 'bullmq-postgres']
const POSTGRES = ['graphile', 'graphile-tuned', 'pgboss', 'bullmq-postgres']

export const scenario = {
  name: 'drain',
  title: 'Drain of 100,000 waiting no-op jobs, one process, 100 slots',
  metrics: DRAIN_METRICS,
  cases(scale) {
    const params = { n: scale(100_000), processes: 1, slots: SLOTS }
    return [
      {
        id: 'sluice',
        label: 'Sluice, lane limit 100',
        system: 'sluice',
        params: { ...params, limit: SLOTS },
      },
      {
        id: 'sluice, prefetch off',
        label: 'Sluice, lane limit 100, prefetch off',
        system: 'sluice',
        params: { ...params, limit: SLOTS, prefetch: 0 },
      },
      { id: 'sluice-unlimited', label: 'Sluice, no limit', system: 'sluice', params },
      { id: 'sluice-before', system: 'sluice-before', params: { ...params, limit: SLOTS } },
      ...PEERS.map((system) => ({ id: system, system, params, sweep: 'drain' })),
      ...['sluice', 'graphile-tuned', 'pgboss'].map((system) => ({
        id: `${system}@embedded`,
        label: `${system}, server with embedded defaults`,
        system,
        server: 'embedded',
        sweep: 'drain',
        params: system === 'sluice' ? { ...params, limit: SLOTS } : params,
      })),
    ]
  },
  goals: [
    {
      metric: 'jobsPerSecond',
      of: 'sluice',
      against: POSTGRES,
      atLeast: 1.5,
      aim: 2,
      row: 'Drain of 100,000 waiting jobs, 1 process x 100 slots',
    },
    {
      metric: 'jobsPerSecond',
      of: 'sluice, prefetch off',
      against: POSTGRES,
      atLeast: 1,
      row: 'The same, prefetch off',
    },
    {
      metric: 'jobsPerSecond',
      of: 'sluice',
      against: ['bullmq'],
      row: 'Drain of 100,000 waiting jobs, 1 process x 100 slots',
    },
    { metric: 'jobsPerSecond', of: 'sluice', against: ['sluice-unlimited'], atLeast: 0.95 },
    {
      metric: 'jobsPerSecond',
      of: 'sluice@embedded',
      against: ['graphile-tuned@embedded', 'pgboss@embedded'],
      atLeast: 1.4,
      row: 'The same, on a server with default settings',
    },
    { metric: 'jobsPerSecond', of: 'sluice', against: ['sluice-before'], atLeast: 1 },
    { metric: 'jobsPerSecond', of: 'sluice, prefetch off', against: ['sluice-before'], atLeast: 1 },
    {
      metric: 'serverUs',
      of: 'sluice',
      against: ['sluice-before'],
      atMost: 0.5,
      row: 'Server CPU per job, 1 process x 100 slots, prefetch on and off',
    },
    {
      metric: 'serverUs',
      of: 'sluice, prefetch off',
      against: ['sluice-before'],
      atMost: 0.5,
      row: 'Server CPU per job, 1 process x 100 slots, prefetch on and off',
    },
    {
      metric: 'walBytes',
      of: 'sluice',
      atMost: 550,
      row: 'WAL per job, 1 process x 100 slots, prefetch on and off',
    },
    {
      metric: 'walBytes',
      of: 'sluice, prefetch off',
      atMost: 550,
      row: 'WAL per job, 1 process x 100 slots, prefetch on and off',
    },
  ],
  async run(measurement, params) {
    return (await drain(measurement, params)).figures
  },
}
