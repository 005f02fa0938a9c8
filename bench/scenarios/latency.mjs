import { pause } from '../harness/clock.mjs'
import { percentile } from '../harness/statistics.mjs'

const SYSTEMS = ['sluice', 'graphile', 'graphile-tuned', 'pgboss', 'pgboss-notify', 'bullmq', 'bullmq-always']
const SHAPES = [
  { id: 'apart', label: 'producer and worker in two processes', together: false },
  { id: 'together', label: 'both in one process', together: true },
]
// Long enough for every peer to have connected its listener and fallen idle.
const SETTLE_MS = 2000
const SLOTS = 10

export const scenario = {
  name: 'latency',
  title: 'Submit to start on an idle system, one job every 50 ms',
  metrics: [
    { name: 'p50', label: 'p50 ms', better: 'lower' },
    { name: 'p99', label: 'p99 ms', better: 'lower' },
  ],
  cases(scale) {
    return SHAPES.flatMap(({ id, label, together }) =>
      [...SYSTEMS, 'bullmq-postgres'].map((system) => ({
        id: `${system} ${id}`,
        label: `${system}, ${label}`,
        system,
        params: {
          together,
          count: scale(400, 40),
          warmUp: 20,
          gapMs: 50,
          slots: SLOTS,
          limit: system === 'sluice' ? SLOTS : null,
        },
      })),
    )
  },
  goals: [
    { metric: 'p50', of: 'sluice apart', against: ['graphile apart', 'graphile-tuned apart'], atMost: 0.6 },
    { metric: 'p50', of: 'sluice apart', against: ['bullmq apart'], atMost: 1.3 },
    { metric: 'p99', of: 'sluice apart', against: ['graphile apart', 'graphile-tuned apart'], atMost: 1 },
    { metric: 'p50', of: 'sluice together', against: ['graphile together', 'graphile-tuned together'] },
  ],
  async run(measurement, { together, count, warmUp, gapMs, slots, limit }) {
    const system = await measurement.open({ limit })
    await system.setup()
    const worker = await measurement.startAgents(1, 'worker', { limit })
    const producer = together ? worker : await measurement.startAgents(1, 'producer', { limit })
    await worker.askAll('work', { slots, lanes: 1, jobMs: 0 })
    await pause(SETTLE_MS)
    await producer.askAll('probe', { count, warmUp, gapMs })
    await worker.untilFinished(warmUp + count)
    const [delays] = await worker.askAll('startDelays')
    return { p50: percentile(delays, 0.5), p99: percentile(delays, 0.99), jobs: delays.length }
  },
}
