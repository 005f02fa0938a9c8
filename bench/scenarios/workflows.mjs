import { timeWorkflows } from '../harness/workflows.mjs'

const SLOTS = 100
const WARM_UP = 200
const STEPS = 3

export const scenario = {
  name: 'workflows',
  title: 'Workflows of three no-op steps, one after the other: 2,000 of them, one process, 100 slots',
  metrics: [{ name: 'workflowsPerSecond', label: 'workflows/s', better: 'higher' }],
  cases(scale) {
    const shared = { n: scale(2000), slots: SLOTS }
    return [
      { id: 'sluice', label: 'Sluice, submitted one by one', shape: 'three', limit: SLOTS },
      { id: 'sluice-bulk', label: 'Sluice, submitted in bulk', shape: 'three-bulk', limit: SLOTS },
      { id: 'sluice-before', shape: 'three', limit: SLOTS },
      { id: 'dbos', shape: 'three' },
      { id: 'dbos-queue', shape: 'three' },
    ].map(({ shape, limit = null, ...one }) => ({
      ...one,
      system: one.id === 'sluice-bulk' ? 'sluice' : one.id,
      sweep: 'workflows',
      params: { ...shared, shape, limit },
    }))
  },
  goals: [
    {
      metric: 'workflowsPerSecond',
      of: 'sluice',
      against: ['dbos', 'dbos-queue'],
      atLeast: 8,
      row: 'Workflows of three steps',
    },
    {
      metric: 'workflowsPerSecond',
      of: 'sluice',
      against: ['sluice-before'],
      atLeast: 1,
      row: 'Workflows of three steps',
    },
    { metric: 'workflowsPerSecond', of: 'sluice-bulk', against: ['dbos', 'dbos-queue'] },
  ],
  async run(measurement, params) {
    const { n } = params
    const warmUp = { n: WARM_UP, jobs: STEPS * WARM_UP }
    const figures = await timeWorkflows(measurement, { ...params, jobs: STEPS * n, warmUp })
    return { ...figures, workflowsPerSecond: n / figures.seconds }
  },
}
