import { now } from '../harness/clock.mjs'
import { POSTGRES_PEERS } from '../systems/registry.mjs'

// pg-boss with NOTIFY has no other bulk path than without.
const PEERS = POSTGRES_PEERS.filter((peer) => peer !== 'pgboss-notify' && peer !== 'graphile-tuned')

export const scenario = {
  name: 'bulk',
  title: 'Bulk enqueue of 100,000 jobs from one process',
  metrics: [{ name: 'jobsPerSecond', label: 'jobs/s', better: 'higher' }],
  cases(scale) {
    const n = scale(100_000)
    return ['sluice', ...PEERS, 'bullmq', 'bullmq-always'].map((system) => ({
      id: system,
      system,
      params: { n, warmUp: scale(20_000) },
    }))
  },
  goals: [
    { metric: 'jobsPerSecond', of: 'sluice', against: PEERS, atLeast: 1.6 },
    { metric: 'jobsPerSecond', of: 'sluice', against: ['bullmq'] },
  ],
  async run(measurement, { n, warmUp }) {
    const system = await measurement.open()
    await system.setup()
    await system.bulkEnqueue(warmUp)
    await measurement.checkpoint()
    const before = now()
    await system.bulkEnqueue(n)
    return { jobsPerSecond: (n / (now() - before)) * 1000 }
  },
}
