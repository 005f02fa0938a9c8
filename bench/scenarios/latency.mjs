import { pause } from '../harness/clock.mjs'
import { percentile } from '../harness/statistics.mjs'
import { isSluice } from '../systems/registry.mjs'

const SYSTEMS = [
  'sluice',
  'sluice-before',
  'graphile',
  'graphile-tuned',
  'pgboss',
  'pgboss-notify',
  'bullmq',
  'bullmq-always',
]
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
          limit: isSluice(system) ? SLOTS : null,
        },
      })),
    )
  },
  goals: [
    goal('p50', ['graphile apart', 'graphile-tuned apart'], { atMost: 0.8 }),
    goal('p99', ['graphile apart', 'graphile-tuned apart'], { atMost: 0.9 }),
    goal('p50', ['bullmq apart'], { atMost: 1.3 }),
    goal('p50', ['sluice-before apart'], { atMost: 1 }),
    goal('p99', ['sluice-before apart'], { atMost: 1 }),
    { metric: 'p50', of: 'sluice together', against: ['graphile together', 'graphile-tuned together'] },
    { metric: 'p50', of: 'sluice together', against: ['sluice-before together'], atMost: 1 },
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

function goal(metric, against, bound) {
  return {
    metric,
    of: 'sluice apart',
    against,
    ...bound,
    row: `Time from submission to start, idle system, ${metric}`,
  }
}
