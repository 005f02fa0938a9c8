import { now } from '../harness/clock.mjs'
import { median } from '../harness/statistics.mjs'
import { allCompleted } from '../harness/workflows.mjs'

const LIMIT = 100
const MB = 1024 * 1024
const SHAPES = [
  { id: '1x100', processes: 1, slots: 100 },
  { id: '8x12', processes: 8, slots: 12 },
]

export const scenario = {
  name: 'fanout',
  title:
    'Fan-out over 100,000 items, window and lane limit 100, against as many plain jobs on that lane, prefetch off',
  metrics: [
    { name: 'jobsPerSecond', label: 'jobs/s', better: 'higher' },
    { name: 'fromSubmission', label: 'jobs/s from submission', better: 'higher' },
    { name: 'early', label: 'RSS in the second tenth, MB', better: 'lower' },
    { name: 'late', label: 'RSS in the last tenth, MB', better: 'lower' },
  ],
  cases(scale) {
    const n = scale(100_000)
    return SHAPES.flatMap(({ id, processes, slots }) => {
      const params = { n, processes, slots, limit: LIMIT, prefetch: 0 }
      const { prefetch: _, ...before } = params
      return [
        { id: `${id} fan-out`, system: 'sluice', params: { ...params, kind: 'fanOut' } },
        { id: `${id} plain`, system: 'sluice', params: { ...params, kind: 'backlog' } },
        { id: `${id} fan-out before`, system: 'sluice-before', params: { ...before, kind: 'fanOut' } },
        { id: `${id} plain, live`, system: 'sluice', params: { ...params, kind: 'live' } },
      ]
    })
  },
  goals: SHAPES.flatMap(({ id, processes, slots }) => {
    const of = `${id} fan-out`
    const row = `Fan-out over 100,000 items, ${processes} ${processes === 1 ? 'process' : 'processes'} x ${slots} slots`
    return [
      {
        metric: 'jobsPerSecond',
        of,
        against: [`${id} plain`],
        atLeast: 0.75,
        row,
        beside: 'Sluice, plain jobs, prefetch off',
      },
      { metric: 'jobsPerSecond', of, against: [`${id} fan-out before`], atLeast: 1, row },
      { metric: 'fromSubmission', of, against: [`${id} plain, live`] },
    ]
  }),
  /**
   * `backlog`: the plain jobs are there before any worker starts. `live`: they are submitted while the
   * workers run, as the children of a fan-out are made.
   */
  async run(measurement, { n, processes, slots, limit, prefetch, kind }) {
    const options = { limit, prefetch, workflows: true }
    const system = await measurement.open(options)
    await system.setup()
    if (kind === 'backlog') await system.bulkEnqueue(n)
    await measurement.checkpoint()
    const agents = await measurement.startAgents(processes, 'worker', options)
    await agents.askAll('work', { slots, lanes: 1, jobMs: 0 })
    const submittedAt = now()
    if (kind === 'fanOut') await system.startWorkflows('fan', n)
    if (kind === 'live') await system.bulkEnqueue(n)
    const submitMs = now() - submittedAt
    await agents.untilFinished(n)
    await measurement.untilDurable(system)
    const endedAt = now()
    await allCompleted(system)
    return {
      jobsPerSecond: (n / (endedAt - agents.firstAt)) * 1000,
      ...(kind === 'backlog' ? {} : { fromSubmission: (n / (endedAt - submittedAt)) * 1000, submitMs }),
      ...memoryOf(agents, n),
      firstAfterMs: agents.firstAt - submittedAt,
      ranTwice: agents.finished - n,
    }
  },
}

/** Medians of what all workers reported. The first tenth is left to the growth of any young process. */
function memoryOf({ timeline }, n) {
  const between = (from, to) =>
    median(
      timeline.filter(({ finished }) => finished >= from * n && finished <= to * n).map((s) => s.rss / MB),
    )
  return {
    early: between(0.1, 0.2),
    late: between(0.9, 1),
    peak: Math.max(...timeline.map((sample) => sample.rss / MB)),
  }
}
