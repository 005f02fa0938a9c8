import { DRAIN_METRICS, drain } from '../harness/drain.mjs'

const SHAPES = [
  { id: '8x25', processes: 8, slots: 25, goal: 1.2 },
  { id: '16x5', processes: 16, slots: 5, goal: 1 },
]
// Every end of a job comes alone, so a cycle has little to report and little to start.
const RANDOM = { id: '8x25 random', processes: 8, slots: 25, jobMs: { upTo: 20 } }

export const scenario = {
  name: 'workers',
  title:
    'Drain of 100,000 waiting jobs by many processes with few slots, one PostgreSQL; "random": 60,000 jobs of 0 to 20 ms',
  metrics: DRAIN_METRICS,
  cases(scale) {
    const noop = SHAPES.flatMap(({ id, processes, slots }) => {
      const params = { n: scale(100_000), processes, slots }
      const sweep = `workers ${id}`
      return [
        ...sluiceCases(id, params),
        { id: `${id} graphile-tuned`, system: 'graphile-tuned', params, sweep },
        { id: `${id} pgboss`, system: 'pgboss', params, sweep },
      ]
    })
    const { id, ...random } = RANDOM
    return [...noop, ...sluiceCases(id, { ...random, n: scale(60_000) })]
  },
  goals: [
    ...SHAPES.flatMap(({ id, goal }) => {
      const [processes, slots] = id.split('x')
      const what = `Drain, ${processes} processes x ${slots} slots`
      return [
        {
          metric: 'jobsPerSecond',
          of: `${id} sluice`,
          against: [`${id} graphile-tuned`],
          atLeast: goal,
          row: what,
        },
        { metric: 'jobsPerSecond', of: `${id} sluice`, against: [`${id} pgboss`], row: what },
        ...beforeGoals(id, `Server CPU per job, ${processes} processes x ${slots} slots`),
      ]
    }),
    ...beforeGoals(RANDOM.id, 'Server CPU per job, 8 processes x 25 slots, jobs of 0 to 20 ms'),
  ],
  async run(measurement, params) {
    return (await drain(measurement, params)).figures
  },
}

function sluiceCases(id, params) {
  const limited = { ...params, limit: params.processes * params.slots }
  return [
    { id: `${id} sluice`, system: 'sluice', params: limited },
    { id: `${id} sluice, prefetch off`, system: 'sluice', params: { ...limited, prefetch: 0 } },
    { id: `${id} before`, system: 'sluice-before', params: limited },
  ]
}

function beforeGoals(id, row) {
  const against = [`${id} before`]
  return ['', ', prefetch off'].flatMap((suffix) => {
    const of = `${id} sluice${suffix}`
    return [
      { metric: 'jobsPerSecond', of, against, atLeast: 1 },
      { metric: 'serverUs', of, against, atMost: 0.6, row: `${row}, prefetch on and off` },
    ]
  })
}
