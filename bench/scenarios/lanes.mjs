import { pause } from '../harness/clock.mjs'
import { drain } from '../harness/drain.mjs'
import { percentile } from '../harness/statistics.mjs'

const COUNTS = [50, 1000]
const [LIMIT, SLOTS] = [10, 100]
const SETTLE_MS = 3000
const KINDS = [
  {
    kind: 'idle start',
    metric: 'p50',
    bound: { atMost: 1 },
    row: 'Time from submission to start, idle worker with 1,000 lanes, p50',
  },
  {
    kind: 'drain of all',
    metric: 'jobsPerSecond',
    bound: { atLeast: 1 },
    row: 'Drain of jobs in all of 1,000 lanes',
  },
  {
    kind: 'drain of one',
    metric: 'jobsPerSecond',
    bound: { atLeast: 1 },
    row: 'Drain of jobs in one of 1,000 lanes',
  },
]

/** What lanes cost that have nothing to do: one worker serves all of them. */
export const scenario = {
  name: 'lanes',
  title:
    'One worker, 50 and 1,000 lanes: submit to start when idle; drains of 3,000 jobs in all lanes, and of 20,000 in one',
  metrics: [
    { name: 'p50', label: 'idle start p50, ms', unit: 'ms', better: 'lower' },
    { name: 'p99', label: 'idle start p99, ms', unit: 'ms', better: 'lower' },
    { name: 'jobsPerSecond', label: 'jobs/s', better: 'higher' },
  ],
  cases(scale) {
    const idle = { kind: 'idle', limit: LIMIT, slots: SLOTS, count: scale(40, 10), warmUp: 5 }
    const drained = { kind: 'drain', limit: LIMIT, slots: SLOTS, processes: 1 }
    const all = (lanes) => ({ ...drained, lanes, n: scale(3000, 1000) })
    // Before, a thousand jobs in one of 1,000 lanes took up to a minute, so the earlier commit gets no more of them.
    const one = { ...drained, lanes: 1, n: scale(20_000, 1000) }
    return COUNTS.flatMap((laneCount) =>
      [
        ['idle start', idle, idle],
        ['drain of all', all(laneCount), all(laneCount)],
        ['drain of one', one, { ...one, n: 1000 }],
      ].flatMap(([kind, params, before]) => [
        { id: `${laneCount} lanes, ${kind}`, system: 'sluice', params: { ...params, laneCount } },
        {
          id: `${laneCount} lanes, ${kind}, before`,
          system: 'sluice-before',
          params: { ...before, laneCount },
        },
      ]),
    )
  },
  goals: KINDS.flatMap(({ kind, metric, bound, row }) => {
    const before = (count) => ({
      metric,
      of: `${count} lanes, ${kind}`,
      against: [`${count} lanes, ${kind}, before`],
      ...bound,
    })
    return [
      before(50),
      { ...before(1000), row },
      // What the other 950 lanes cost.
      {
        metric,
        of: `1000 lanes, ${kind}`,
        against: [`50 lanes, ${kind}`],
        row,
        beside: 'Sluice with 50 lanes',
      },
    ]
  }),
  run: (measurement, params) =>
    params.kind === 'idle'
      ? idleStart(measurement, params)
      : drain(measurement, params).then((d) => d.figures),
}

/** Jobs go to one lane after the other, as work that comes now and then would. */
async function idleStart(measurement, { limit, slots, laneCount, count, warmUp }) {
  const options = { limit, laneCount }
  const system = await measurement.open(options)
  await system.setup()
  const worker = await measurement.startAgents(1, 'worker', options)
  const producer = await measurement.startAgents(1, 'producer', options)
  await worker.askAll('work', { slots, lanes: laneCount, jobMs: 0 })
  await measurement.checkpoint()
  await pause(SETTLE_MS)
  await producer.askAll('probe', { count, warmUp, gapMs: 50 })
  await worker.untilFinished(warmUp + count)
  const [delays] = await worker.askAll('startDelays')
  return { p50: percentile(delays, 0.5), p99: percentile(delays, 0.99), jobs: delays.length }
}
