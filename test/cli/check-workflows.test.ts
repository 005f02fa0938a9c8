import { expect, test } from 'vitest'
import { Cli } from './cli.ts'

const cli = new Cli({ DATABASE_URL: 'postgres://127.0.0.1:1/none' })

const TASKS = 'tasks: { count: { exec: [cat] }, merge: { exec: [cat] } }\n'

async function problemsOf(workflows: string): Promise<string[]> {
  await cli.write('flow.yaml', `${TASKS}${workflows}`)
  const { code, stdout, stderr } = await cli.run(['check', 'flow.yaml'])
  expect([code, stdout]).toEqual([2, ''])
  expect(stderr).toContain('code:  INVALID_CONFIG')
  return stderr.match(/flow\.yaml:.*/g) ?? []
}

test('a right file: says which workflows it has, without a database', async () => {
  await cli.write(
    'flow.yaml',
    `${TASKS}workflows: { all: { steps: { a: { task: count }, b: { task: merge, needs: [a] } } } }\n`,
  )
  const { code, stdout } = await cli.run(['check', 'flow.yaml'])
  expect(code).toBe(0)
  expect(stdout).toContain('flow.yaml is fine: 2 tasks in 4 lanes, 1 workflow')
  expect(stdout).toMatch(/^all +a b$/m)
  expect(await cli.json('check', 'flow.yaml')).toMatchObject({
    valid: true,
    workflows: [{ name: 'all', steps: ['a', 'b'] }],
  })
})

test('reports invalid YAML with line, column and what would be correct', async () => {
  expect(
    await problemsOf(`workflows:
  pipeline:
    steps:
      a: { task: count, needs: [c] }
      b: { task: count, needs: [a] }
      c: { task: count, needs: [b, d] }
      both: { task: count, workflow: pipeline }
      late: { task: count, timeout: soon }
      wide: { task: count, with_items: [1], concurrency: 0 }
      part: { workflow: pipeline, batch: { items: [1], size: none } }
      b: { task: merge }
      held: { workflow: pipeline, lane: fast }
`),
  ).toEqual([
    expect.stringMatching(
      /^flow\.yaml:12:7: workflows\.pipeline\.steps\.b: duplicate key, first defined at flow\.yaml:6:7; keep one$/,
    ),
    expect.stringMatching(
      /^flow\.yaml:8:13: .*both: has task and workflow; a step runs one thing: keep one of them$/,
    ),
    expect.stringMatching(/^flow\.yaml:9:37: .*late\.timeout: found "soon"; write a duration/),
    expect.stringMatching(
      /^flow\.yaml:10:58: .*wide\.concurrency: found 0; write a whole number of at least 1$/,
    ),
    expect.stringMatching(
      /^flow\.yaml:11:62: .*part\.batch\.size: found "none"; write a whole number of at least 1$/,
    ),
    expect.stringMatching(
      /^flow\.yaml:13:35: .*held\.lane: a sub-workflow waits for its children and never takes a slot/,
    ),
    expect.stringMatching(/^flow\.yaml:7:36: .*c\.needs\[1\]: no step is called d; /),
    expect.stringMatching(
      /^flow\.yaml:5:32: .*needs: the steps need each other in a circle: .* -> .* -> .* -> /,
    ),
  ])
})

test.each(['lane', 'laneFixed', 'keys', 'user'])(
  '%s of a workflow is said to belong to its tasks',
  async (option) => {
    expect(
      await problemsOf(`workflows:
  other: { ${option}: x, steps: { a: { task: count } } }
`),
    ).toEqual([expect.stringContaining(`so it has no ${option}; set ${option} on the tasks it runs`)])
  },
)

test('reports taken names with their positions', async () => {
  expect(
    await problemsOf(`workflows:
  other: { steps: { a: { task: cuont }, b: { task: other } } }
`),
  ).toEqual([
    expect.stringMatching(/^flow\.yaml:3:52: workflows\.other\.steps\.b\.task: other is a workflow; /),
  ])
  expect(
    await problemsOf(`workflows:
  count: { steps: { a: { task: merge } } }
`),
  ).toEqual([
    expect.stringMatching(/^flow\.yaml:3:3: workflows\.count: a task is called count too, .*; rename one$/),
  ])
})

test('warns of settings and steps of tasks that another program must bring, with their place and near names', async () => {
  await cli.write(
    'flow.yaml',
    `tasks: { count: { exec: [cat] }, cuont: { priority: 3 }, resize: { timeout: 5s } }
workflows:
  other: { steps: { a: { task: resise }, b: { task: resize }, c: { task: publish } } }
`,
  )
  const { code, stdout, stderr } = await cli.run(['check', 'flow.yaml'])
  expect(code).toBe(0)
  expect(stdout).toContain('flow.yaml is fine: 1 task in 4 lanes, 1 workflow')
  const applies =
    'has no exec and is not defined in this program; its settings apply to programs that have its code and this file'
  const once = 'the workflow can be submitted once a worker has registered the task'
  expect(stderr.trimEnd().split('\n')).toEqual([
    `warning: task cuont: flow.yaml:1:34: tasks.cuont: ${applies}; did you mean count?`,
    `warning: task resize: flow.yaml:1:58: tasks.resize: ${applies}`,
    `warning: task resise: flow.yaml:3:32: workflows.other.steps.a.task: task resise is not defined here; ${once}; did you mean resize?`,
    `warning: task publish: flow.yaml:3:74: workflows.other.steps.c.task: task publish is not defined here; ${once}`,
  ])
})

test('a module may export workflows beside its tasks', async () => {
  await cli.write(
    'flow.config.mjs',
    `const task = (name) => ({ name, execution: 'inline', run: () => 1, retry: { attempts: 1, backoff: 'fixed', delayMs: 0, maxDelayMs: 0 }, requires: {}, priority: 0, losses: 3, onLost: 'retry', approval: false })
export const tasks = [task('a')]
export const workflows = [{ name: 'two', definition: { steps: { x: { task: 'a' } } } }]
export default { workflows: { one: { steps: { y: { task: 'a' } } } } }
`,
  )
  const { code, stdout, stderr } = await cli.run(['check', 'flow.config.mjs'])
  expect([code, stderr]).toEqual([0, ''])
  expect(stdout).toMatch(/^one +y\ntwo +x$/m)
  await cli.write('bad.config.mjs', `export const workflows = [{ name: 'two' }]\nexport default {}\n`)
  expect((await cli.run(['check', 'bad.config.mjs'])).stderr).toContain(
    'the export workflows[0] is a map; make it with { name, definition }',
  )
})

test('warns of what is valid and most likely a slip', async () => {
  await cli.write(
    'flow.yaml',
    `${TASKS}lanes:
  counting: { tasks: [cuont, merge, elsewhere], slots: 1 }
workflows:
  all:
    steps:
      a: { task: count, with_items: [1], with: { file: "\${ item }", shell: "\${HOME} \${{ item }}" } }
`,
  )
  const { code, stderr } = await cli.run(['check', 'flow.yaml'])
  expect(code).toBe(0)
  expect(stderr.trimEnd().split('\n')).toEqual([
    'warning: lane counting: names task cuont, which this file does not declare; did you mean count?',
    'warning: lane counting: names task elsewhere, which this file does not declare; another program must bring it',
    'warning: workflow all: steps.a.with.file (flow.yaml:7:56) has ${ item } as plain text; an expression has two braces: ${{ item }}',
  ])
  expect(await cli.json('check', 'flow.yaml')).toMatchObject({
    valid: true,
    warnings: [{ lane: 'counting' }, { lane: 'counting' }, { workflow: 'all' }],
  })
})
