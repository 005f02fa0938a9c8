import { DRAIN_METRICS, drain } from '../harness/drain.mjs'

const SHAPES = [
  { id: '1x100', processes: 1, slots: 100, limit: 100, goal: 1.6 },
  { id: '8x25', processes: 8, slots: 25, limit: 200, goal: 1.8 },
]

export const scenario = {
  name: 'mixed',
  title:
    'Mixed work: 60,000 jobs, two limited lanes, three tasks, a tenth fail once, a tenth are children of windows',
  metrics: DRAIN_METRICS,
  cases(scale) {
    return SHAPES.flatMap(({ id, goal: _, ...shape }) => {
      const params = { ...shape, n: scale(60_000), lanes: 2, mixed: true }
      return [
        { id: `${id} sluice`, system: 'sluice', params },
        { id: `${id} sluice, prefetch off`, system: 'sluice', params: { ...params, prefetch: 0 } },
        { id: `${id} before`, system: 'sluice-before', params },
      ]
    })
  },
  goals: SHAPES.flatMap(({ id, processes, slots, goal }) => {
    const against = [`${id} before`]
    const shape = `${processes} ${processes === 1 ? 'process' : 'processes'} x ${slots} slots`
    return [
      {
        metric: 'jobsPerSecond',
        of: `${id} sluice`,
        against,
        atLeast: goal,
        row: `Mixed work (2 lanes, 3 tasks, retries, fan-outs), ${shape}`,
      },
      { metric: 'jobsPerSecond', of: `${id} sluice, prefetch off`, against, atLeast: 1 },
      { metric: 'serverUs', of: `${id} sluice`, against },
      { metric: 'serverUs', of: `${id} sluice, prefetch off`, against },
      ...['', ', prefetch off'].map((suffix) => ({
        metric: 'walBytes',
        of: `${id} sluice${suffix}`,
        atMost: 650,
        row: 'WAL per job, mixed work, both shapes, prefetch on and off',
      })),
    ]
  }),
  async run(measurement, params) {
    return (await drain(measurement, params)).figures
  },
}
