import { now } from '../harness/clock.mjs'
import { POSTGRES_PEERS } from '../systems/registry.mjs'

// pg-boss with NOTIFY has no other bulk path than without, nor graphile-worker with a local queue.
const PEERS = POSTGRES_PEERS.filter((peer) => peer !== 'pgboss-notify' && peer !== 'graphile-tuned')
// As many as an application submits in one call, beside the largest call that Sluice is measured with.
const CALL = 1000

export const scenario = {
  name: 'bulk',
  title: 'Bulk enqueue of 100,000 jobs from one process',
  metrics: [
    { name: 'jobsPerSecond', label: 'jobs/s', better: 'higher' },
    { name: 'serverUs', label: 'server CPU, us/job', unit: 'us', better: 'lower' },
    { name: 'walBytes', label: 'WAL, bytes/job', unit: 'bytes', better: 'lower' },
  ],
  cases(scale) {
    const params = { n: scale(100_000), warmUp: scale(20_000) }
    return [
      ...['sluice', 'sluice-before', ...PEERS, 'bullmq', 'bullmq-always'].map((system) => ({
        id: system,
        system,
        sweep: 'bulk',
        params,
      })),
      ...['sluice', 'sluice-before'].map((system) => ({
        id: `${system}, calls of 1,000`,
        system,
        params: { ...params, call: CALL },
      })),
    ]
  },
  goals: [
    {
      metric: 'jobsPerSecond',
      of: 'sluice',
      against: PEERS,
      atLeast: 1.6,
      row: 'Bulk submission of 100,000 jobs',
    },
    { metric: 'jobsPerSecond', of: 'sluice', against: ['bullmq'], row: 'Bulk submission of 100,000 jobs' },
    ...['', ', calls of 1,000'].flatMap((suffix) => {
      const against = [`sluice-before${suffix}`]
      const of = `sluice${suffix}`
      const row = `Bulk submission of 100,000 jobs${suffix}`
      return [
        { metric: 'jobsPerSecond', of, against, atLeast: 1, row },
        { metric: 'serverUs', of, against, atMost: 1, row: `Server CPU per job, bulk submission${suffix}` },
        { metric: 'walBytes', of, against },
      ]
    }),
  ],
  async run(measurement, { n, warmUp, call }) {
    const system = await measurement.open()
    await system.setup()
    await system.bulkEnqueue(warmUp, { call })
    await measurement.checkpoint()
    return measurement.costing(n, async () => {
      const before = now()
      await system.bulkEnqueue(n, { call })
      return { jobsPerSecond: (n / (now() - before)) * 1000 }
    })
  },
}
