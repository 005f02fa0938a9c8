import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { expect, test } from 'vitest'
import { type Flow, task, workflow } from '../../src/index.ts'
import { useApps } from '../support/apps.ts'
import { useDatabase } from '../support/database.ts'
import { Gate } from '../support/gate.ts'
import { until } from '../support/until.ts'
import { Cli, MAIN } from './cli.ts'

const database = useDatabase()
const apps = useApps(database)
const cli = new Cli({ DATABASE_URL: database.url })

test('rm deletes a workflow with the jobs below it only with --tree', async () => {
  const one = task({ name: 'one', run: () => 1 })
  const flow = workflow({ name: 'flow', steps: (steps: Flow<null>) => void steps.step('a', one) })
  const app = await apps.open({ tasks: [one], workflows: [flow] })
  await app.work()
  const job = await app.submit(flow, null)
  await job.result()
  const refused = await cli.run(['rm', job.id])
  expect(refused.code).toBe(1)
  expect(refused.stderr).toContain(
    `job ${job.id} is the workflow flow: deleting it deletes every job below it. Add --tree to do that`,
  )
  expect((await app.getJob(job.id)).status).toBe('completed')
  expect((await cli.run(['rm', job.id, '--tree'])).stdout).toBe(`job ${job.id}: deleted\n`)
  await expect(app.getJob(job.id)).rejects.toMatchObject({ code: 'JOB_NOT_FOUND' })
})

test('submit --wait says once that a job was cancelled', { timeout: 240_000 }, async () => {
  const gate = new Gate()
  gate.open()
  const held = task({
    name: 'held',
    run: async (_: unknown, { signal }) => {
      const stopped = new Promise((_, reject) =>
        signal.addEventListener('abort', () => reject(signal.reason)),
      )
      await gate.pass()
      await stopped
    },
  })
  const app = await apps.open({ tasks: [held] })
  await app.work()
  const waiting = cli.start(['submit', 'held', '--wait'])
  await gate.arrived()
  const [job] = await app.listJobs({ status: ['running'] })
  await app.cancel(job!.id)
  await waiting.exited
  expect(waiting.stderr).toContain(`job ${job!.id} was cancelled: `)
  expect(waiting.stderr).not.toContain('cancelled: cancelled')
})

test('schedules create makes a schedule, as the dashboard says', async () => {
  const app = await apps.open({ tasks: [task({ name: 'nightly', run: () => 1 })] })
  await app.work()
  const made = await cli.run(['schedules', 'create', 'night', '--task', 'nightly', '--cron', '0 3 * * *'])
  expect([made.code, made.stderr]).toEqual([0, ''])
  await until(async () => (await app.listSchedules()).some(({ name }) => name === 'night'), 'the schedule')
})

test('check warns of an expression in exec, which stays plain text', async () => {
  await cli.write('sluice.yaml', "tasks: { shrink: { exec: [cat, '--to=${{ input.width }}'] } }\n")
  const { code, stderr } = await cli.run(['check', 'sluice.yaml'])
  expect(code).toBe(0)
  expect(stderr).toContain(
    'warning: task shrink: exec has ${{ input.width }} as plain text: expressions are not rendered in commands',
  )
})

test('check lists the tasks of a lane that only code brings, and marks them', async () => {
  await cli.write(
    'sluice.yaml',
    'lanes: { measuring: { tasks: [survey, measure, surveyy] } }\ntasks: { survey: { exec: [/bin/true] } }\n',
  )
  const { code, stdout } = await cli.run(['check', 'sluice.yaml'])
  expect(code).toBe(0)
  expect(stdout).toMatch(/\nmeasuring .* survey measure \(from code\) surveyy \(unknown\)\n/)
  const { lanes } = await cli.json<{ lanes: { name: string }[] }>('check', 'sluice.yaml')
  expect(lanes.find(({ name }) => name === 'measuring')).toMatchObject({
    tasks: ['survey'],
    undeclared: ['measure', 'surveyy'],
  })
})

test('ps lists what runs before a longer backlog, and in JSON the newest first', async () => {
  const gate = new Gate()
  const slow = task({ name: 'slow', lane: 'one', run: (_: null) => gate.pass() })
  const app = await apps.open({ tasks: [slow], lanes: { one: { slots: 1 } } })
  await app.work()
  const first = await app.submit(slow, null)
  await gate.arrived()
  const others = await app.submitMany(slow, [null, null, null])
  const filter = ['ps', '--task', 'slow', '-n', '2']
  const { stdout } = await cli.run(filter)
  const ids = [...stdout.matchAll(/^ *(\d+)/gm)].map(([, id]) => id)
  expect(ids).toEqual([first.id, others.at(-1)!.id])
  expect(stdout).toContain('There are more jobs. List them with a larger --limit')
  const listed = await cli.json<{ id: string }[]>(...filter)
  expect(listed.map(({ id }) => id)).toEqual([others.at(-1)!.id, others.at(-2)!.id])
  gate.open()
})

test('tree says once that a step was cancelled', async () => {
  const step = task({ name: 'step', lane: 'closed', run: () => 1 })
  const flow = workflow({ name: 'stopped', steps: (steps: Flow<null>) => void steps.step('a', step) })
  const app = await apps.open({ tasks: [step], workflows: [flow], lanes: { closed: { slots: 0 } } })
  await app.work()
  const job = await app.submit(flow, null)
  await until(async () => (await app.tree(job.id)).children.length > 0, 'its step')
  await cli.run(['cancel', job.id, '--reason', 'not needed'])
  await job.result().catch(() => {})
  const { stdout } = await cli.run(['tree', job.id])
  expect(stdout).toContain('cancelled: not needed')
  expect(stdout).not.toContain('cancelled: cancelled')
})

test.runIf(existsSync('/dev/full'))(
  'an output that cannot be written is an error without a stack',
  async () => {
    const script = `exec '${process.execPath}' '${MAIN}' version > /dev/full`
    const { status, stderr } = spawnSync('sh', ['-c', script], { encoding: 'utf8' })
    expect([status, stderr]).toEqual([
      1,
      expect.stringMatching(/^error: the standard output cannot be written: ENOSPC[^\n]*\n$/),
    ])
  },
)
