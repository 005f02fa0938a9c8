import { drain } from '../harness/drain.mjs'

const [PROCESSES, SLOTS] = [1, 100]

export const scenario = {
  name: 'history',
  title: 'Drain of 100,000 jobs with 3,000,000 finished rows in the table, against an empty one',
  metrics: [{ name: 'jobsPerSecond', label: 'jobs/s', better: 'higher' }],
  cases(scale) {
    const shared = { n: scale(100_000), processes: PROCESSES, slots: SLOTS }
    return ['sluice', 'pgboss'].flatMap((system) => {
      const limit = system === 'sluice' ? SLOTS : null
      const finished = scale(3_000_000)
      return [
        { id: `${system} empty`, system, params: { ...shared, limit }, sweep: 'drain' },
        {
          id: `${system} full`,
          system,
          params: { ...shared, limit, finished },
          fixture: `history-${finished}`,
          sweep: 'drain',
        },
      ]
    })
  },
  goals: [
    {
      metric: 'jobsPerSecond',
      of: 'sluice full',
      against: ['sluice empty'],
      atLeast: 0.95,
      row: 'Drain of 100,000 jobs with 3,000,000 finished jobs in the tables',
      beside: 'Sluice with no finished jobs',
    },
  ],
  /** The finished rows are made by running that many jobs, so the table is what running leaves behind. */
  async prepare(measurement, { finished, processes, slots, limit }) {
    await drain(measurement, { n: finished, processes, slots, limit })
  },
  async run(measurement, params) {
    return (await drain(measurement, params)).figures
  },
}
