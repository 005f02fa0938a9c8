import { now } from '../harness/clock.mjs'
import { allCompleted } from '../harness/workflows.mjs'

const [LIMIT, JOB_MS] = [6, 40]
const BOUND = (LIMIT / JOB_MS) * 1000
const WORKERS = [
  { id: '1 worker', processes: 1 },
  { id: '5 workers', processes: 5 },
]

export const scenario = {
  name: 'window',
  title: `Children of a window on a lane of ${LIMIT} slots, ${JOB_MS} ms each: at most ${BOUND}/s`,
  metrics: [
    { name: 'jobsPerSecond', label: 'jobs/s', better: 'higher' },
    { name: 'ofBound', label: 'share of what the slots allow', better: 'higher' },
  ],
  cases(scale) {
    return WORKERS.flatMap(({ id, processes }) => {
      const params = { n: scale(600, 120), warmUp: 60, processes }
      return [
        { id, system: 'sluice', params },
        { id: `${id} before`, system: 'sluice-before', params },
      ]
    })
  },
  goals: WORKERS.flatMap(({ id }) => [
    {
      metric: 'jobsPerSecond',
      of: id,
      against: [`${id} before`],
      atLeast: 1,
      row: `Fan-out of jobs of ${JOB_MS} ms on a lane of ${LIMIT} slots, ${id}`,
    },
    { metric: 'ofBound', of: id, row: `The same, share of what ${LIMIT} slots allow, 1 and 5 workers` },
  ]),
  /** The window is wider than the lane, so that a child always waits when a slot is free. */
  async run(measurement, { n, warmUp, processes }) {
    const options = { limit: LIMIT, workflows: true }
    const system = await measurement.open(options)
    await system.setup()
    const workers = await measurement.startAgents(processes, 'worker', options)
    await workers.askAll('work', { slots: LIMIT, lanes: 1, jobMs: JOB_MS })
    await system.startWorkflows('fan', warmUp)
    await workers.untilFinished(warmUp)
    await measurement.untilDurable(system)
    await measurement.checkpoint()
    const from = now()
    await system.startWorkflows('fan', n)
    await workers.untilFinished(warmUp + n)
    await measurement.untilDurable(system)
    const jobsPerSecond = (n / (now() - from)) * 1000
    await allCompleted(system)
    return { jobsPerSecond, ofBound: jobsPerSecond / BOUND, ranTwice: workers.finished - warmUp - n }
  },
}
