import { now } from '../harness/clock.mjs'
import { percentile } from '../harness/statistics.mjs'
import { POSTGRES_PEERS } from '../systems/registry.mjs'

const SYSTEMS = ['sluice', 'sluice-before', ...POSTGRES_PEERS, 'bullmq', 'bullmq-always']
const SHAPES = [
  { id: '1x16', label: '16 producers in one process', processes: 1, producers: 16, sweep: 'submit' },
  // A producer has one connection in use, so the size of its pool makes no difference.
  { id: '16x1', label: '16 processes x 1 producer', processes: 16, producers: 1 },
]

export const scenario = {
  name: 'submit',
  title: 'Single submissions from 16 producers, each waiting for its own commit',
  metrics: [
    { name: 'perSecond', label: 'submissions/s', better: 'higher' },
    { name: 'p50', label: 'p50 ms', better: 'lower' },
    { name: 'p99', label: 'p99 ms', better: 'lower' },
  ],
  cases(scale) {
    return SHAPES.flatMap(({ id, label, processes, producers, sweep }) =>
      SYSTEMS.map((system) => ({
        id: `${system} ${id}`,
        label: `${system}, ${label}`,
        system,
        sweep,
        params: { processes, producers, seconds: scale.seconds(5) },
      })),
    )
  },
  goals: SHAPES.flatMap(({ id, label }, index) => {
    const [of, row] = [`sluice ${id}`, `Single submissions, ${label}`]
    return [
      {
        metric: 'perSecond',
        of,
        against: POSTGRES_PEERS.map((peer) => `${peer} ${id}`),
        atLeast: index === 0 ? 9 : 1.5,
        row,
      },
      {
        metric: 'perSecond',
        of,
        against: [`bullmq ${id}`],
        ...(index === 0 ? { atLeast: 2 } : {}),
        row,
      },
      { metric: 'perSecond', of, against: [`sluice-before ${id}`], atLeast: 1, row },
    ]
  }),
  async run(measurement, { processes, producers, seconds }) {
    const system = await measurement.open()
    await system.setup()
    await measurement.checkpoint()
    const agents = await measurement.startAgents(processes, 'producer')
    const durationMs = seconds * 1000
    const delays = (
      await agents.askAll('produce', { producers, startAt: now() + 500, warmMs: 1000, durationMs })
    ).flat()
    return {
      perSecond: delays.length / seconds,
      p50: percentile(delays, 0.5),
      p99: percentile(delays, 0.99),
    }
  },
}
