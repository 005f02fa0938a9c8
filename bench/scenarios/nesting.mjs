import { timeWorkflows } from '../harness/workflows.mjs'
import { isSluice } from '../systems/registry.mjs'

// Binary, and every node runs a task: 1,023 workflows.
const TREE_DEPTH = 10
const nodesOf = { chain: (n) => n, tree: (n) => 2 ** n - 1 }

export const scenario = {
  name: 'nesting',
  title: 'Workflows in workflows with one slot: a chain of 1,000, and a binary tree of depth 10',
  metrics: [
    { name: 'seconds', label: 'seconds', better: 'lower' },
    { name: 'nodesPerSecond', label: 'workflows/s', better: 'higher' },
  ],
  cases(scale) {
    const sizes = { chain: { n: scale(1000), warm: 50 }, tree: { n: TREE_DEPTH, warm: 5 } }
    return Object.entries(sizes).flatMap(([shape, { n, warm }]) =>
      ['sluice', 'sluice-before', 'dbos'].map((system) => ({
        id: `${system} ${shape}`,
        system,
        sweep: 'workflows',
        params: { shape, n, warm, slots: 1, limit: isSluice(system) ? 1 : null },
      })),
    )
  },
  goals: [
    {
      metric: 'seconds',
      of: 'sluice chain',
      against: ['dbos chain'],
      atMost: 1,
      row: 'Time of a chain of 1,000 nested workflows',
    },
    {
      metric: 'seconds',
      of: 'sluice tree',
      against: ['dbos tree'],
      row: 'Time of a tree of 1,023 nested workflows',
    },
    {
      metric: 'seconds',
      of: 'sluice chain',
      against: ['sluice-before chain'],
      atMost: 1,
      row: 'Time of a chain of 1,000 nested workflows',
    },
    {
      metric: 'seconds',
      of: 'sluice tree',
      against: ['sluice-before tree'],
      atMost: 1,
      row: 'Time of a tree of 1,023 nested workflows',
    },
  ],
  /** DBOS has no slots: what it runs at once is what its workflows await at once. */
  async run(measurement, { warm, ...params }) {
    const nodes = nodesOf[params.shape]
    const warmUp = { n: warm, jobs: nodes(warm) }
    const figures = await timeWorkflows(measurement, { ...params, jobs: nodes(params.n), warmUp })
    return { ...figures, nodesPerSecond: nodes(params.n) / figures.seconds }
  },
}
