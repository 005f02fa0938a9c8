import { expect, test } from 'vitest'
import { task } from '../../src/worker/task.ts'
import { useApps } from '../support/apps.ts'
import { useDatabase } from '../support/database.ts'
import { Cli } from './cli.ts'

const database = useDatabase()
const apps = useApps(database)
const cli = new Cli(() => ({ DATABASE_URL: database.url }))

const FLOW = `tasks:
  align: { exec: [/bin/cat] }
  resize: { priority: 10 }
workflows:
  thumbnails:
    steps:
      align: { task: align }
      resize: { task: resize, needs: [align] }
      index: { task: index, needs: [align] }
`

test('reports settings of tasks that are not defined, with their positions, until a program registers the tasks', async () => {
  await cli.write('sluice.yaml', FLOW)
  const first = await cli.run(['submit', 'align'])
  expect(first.code).toBe(0)
  expect(first.stderr).toContain('sluice.yaml:3:3: tasks.resize: has no exec')
  expect(first.stderr).toContain('sluice.yaml:9:22: workflows.thumbnails.steps.index.task: task index')

  const early = await cli.run(['submit', 'thumbnails', '--json'])
  expect([early.code, early.stdout]).toEqual([1, ''])
  expect(JSON.parse(early.stderr.trimEnd().split('\n').at(-1)!)).toEqual({
    error: {
      code: 'TASK_NOT_FOUND',
      message: expect.stringMatching(/^workflow 'thumbnails' .* no task named 'index', 'resize'; /),
      details: { name: 'thumbnails' },
    },
  })

  await apps.open({
    tasks: [task({ name: 'resize', run: () => 1 }), task({ name: 'index', run: () => 2 })],
  })
  const late = await cli.run(['submit', 'thumbnails', '--run-at', '1h'])
  expect([late.code, late.stderr]).toEqual([0, ''])
})

test('a run begins nothing whose tasks are not here', async () => {
  await cli.write('sluice.yaml', FLOW)
  const { code, stderr } = await cli.run(['run', 'sluice.yaml', '--json'])
  expect(code).toBe(2)
  expect(JSON.parse(stderr).error.details.problems).toEqual([
    expect.objectContaining({ path: 'tasks.resize', file: 'sluice.yaml', line: 3, column: 3 }),
    expect.objectContaining({ path: 'workflows.thumbnails.steps.index.task', line: 9 }),
  ])
})

test('a program with code refuses settings of a task that it does not have, and says where they are', async () => {
  await cli.write(
    'own.config.mjs',
    `export const tasks = [{ name: 'resize', execution: 'inline', retry: {}, requires: {}, run: () => 1 }]
export default { tasks: { rezise: { priority: 1 } } }
`,
  )
  const { code, stderr } = await cli.run(['check', 'own.config.mjs'])
  expect(code).toBe(2)
  expect(stderr).toContain(
    'own.config.mjs: tasks.rezise: has no exec, and no task of that name is in the code',
  )
  expect(stderr).toContain('did you mean resize?')
})

test('a lane that nobody has made is refused at every start, with its place; one of another program is not', async () => {
  await cli.write(
    'lane.yaml',
    'tasks:\n  e: { exec: [/bin/cat], lane: nolane }\nworkflows: { w: { steps: { a: { task: e } } } }\n',
  )
  for (const args of [
    ['submit', 'e', '--config', 'lane.yaml'],
    ['worker', '--config', 'lane.yaml'],
    ['server', '--port', '0', '--config', 'lane.yaml'],
    ['run', 'lane.yaml'],
  ]) {
    const { code, stderr } = await cli.run([...args, '--json'])
    const { error } = JSON.parse(stderr.trimEnd().split('\n').at(-1)!)
    expect([args[0], code, error.code]).toEqual([args[0], 2, 'INVALID_CONFIG'])
    expect(error.details.problems).toEqual([
      {
        path: 'tasks.e.lane',
        file: 'lane.yaml',
        line: 2,
        column: 32,
        message: expect.stringMatching(/^lane nolane does not exist; existing lanes: default, interactive, /),
      },
    ])
  }
  const { code, stderr } = await cli.run(['check', 'lane.yaml'])
  expect(code).toBe(0)
  expect(stderr).toContain('warning: task e: lane.yaml:2:32: tasks.e.lane: lane nolane does not exist; ')

  await apps.open({ lanes: { nolane: { slots: 1 } } })
  expect(await cli.run(['submit', 'e', '--config', 'lane.yaml'])).toMatchObject({ code: 0, stderr: '' })
})

test('a worker, a server and doctor name a task that a lane of the file misspells', async () => {
  await cli.write(
    'misspelt.yaml',
    'lanes: { narrow: { slots: 1, tasks: [renderr, brought-later] } }\ntasks: { render: { exec: [/bin/cat] } }\n',
  )
  const config = ['--config', 'misspelt.yaml']
  const misspelt =
    'misspelt.yaml:1:38: lanes.narrow.tasks[0]: no file or program has declared a task renderr; did you mean render? Lane narrow does not apply to render'
  const unknown =
    'misspelt.yaml:1:47: lanes.narrow.tasks[1]: no file or program has declared a task brought-later. It will run in lane narrow once a program with this file registers it'
  for (const args of [
    ['worker', ...config],
    ['server', '--port', '0', ...config],
  ]) {
    const command = cli.start(args)
    await command.says(misspelt)
    await command.says(unknown)
    await command.end('SIGTERM')
  }
  const { stdout } = await cli.run(['doctor', '--json', ...config])
  const found = JSON.parse(stdout).findings.filter(({ check }: { check: string }) => check === 'lane narrow')
  expect(found).toMatchObject([
    { level: 'warning', found: expect.stringContaining(misspelt) },
    { level: 'warning', found: expect.stringContaining(unknown) },
  ])
  await apps.open({ tasks: [task({ name: 'brought-later', run: () => 1 })] })
  const later = await cli.run(['doctor', ...config])
  expect(later.stdout).toContain(misspelt)
  expect(later.stdout).not.toContain('declared a task brought-later')
  // The program, without the file, has put it elsewhere.
  expect(later.stdout).toMatch(
    /warning +task brought-later: lane is default; the config says narrow, and no operator moved it: .+\n +-> .+ sluice lanes move brought-later narrow\n/,
  )
})
