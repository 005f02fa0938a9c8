const TASK = 'noop-bench'

/** Every step runs the no-op task. `output` is set where the results of children would nest in each other. */
export const WORKFLOWS = Object.entries({
  three: {
    steps: {
      a: { task: TASK, with: { x: '${{ input.x }}' } },
      b: { task: TASK, needs: ['a'] },
      c: { task: TASK, needs: ['b'] },
    },
  },
  fan: {
    steps: {
      fan: {
        task: TASK,
        with_items: '${{ input.items }}',
        concurrency: 100,
        with: { i: '${{ item }}' },
      },
    },
    output: '${{ 1 }}',
  },
  chain: {
    steps: {
      work: { task: TASK },
      next: { workflow: 'chain', needs: ['work'], ...below() },
    },
    output: '${{ input.n }}',
  },
  tree: {
    steps: {
      work: { task: TASK },
      left: { workflow: 'tree', needs: ['work'], ...below() },
      right: { workflow: 'tree', needs: ['work'], ...below() },
    },
    output: '${{ input.n }}',
  },
}).map(([name, definition]) => ({ name, definition }))

/** Starts what `shape` stands for in the registry. Resolves when it is committed. */
export async function startWorkflows(app, shape, n) {
  const numbers = Array.from({ length: n }, (_, i) => i)
  if (shape === 'three') await Promise.all(numbers.map((x) => app.submit('three', { x })))
  else if (shape === 'three-bulk')
    await app.submitMany(
      'three',
      numbers.map((x) => ({ x })),
    )
  else if (shape === 'fan') await app.submit('fan', { items: numbers })
  else await app.submit(shape, { n })
}

function below() {
  return { when: '${{ input.n > 1 }}', with: { n: '${{ input.n - 1 }}' } }
}
