import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { type LoadedConfig, loadConfig, task } from '../../src/index.ts'
import { useApps } from '../support/apps.ts'
import { useDatabase } from '../support/database.ts'

const apps = useApps(useDatabase())

const deploy = task({ name: 'deploy', approval: true, run: (n: number) => n })
const probe = task({ name: 'probe', run: (n: number) => n })

test('a job that needs approval does not run before somebody approves it', async () => {
  const app = await apps.open({ tasks: [deploy, probe], actor: 'grace' })
  await app.work()
  const job = await app.submit(deploy, 1)
  await app.submit(probe, 2).then((other) => other.result())
  expect(await app.getJob(job.id)).toMatchObject({
    status: 'awaiting_approval',
    attempt: 0,
    approvedBy: null,
  })
  expect((await app.why(job.id)).reason).toBe('it is waiting for approval')

  await app.approve(job.id)

  expect(await job.result()).toBe(1)
  expect(await app.getJob(job.id)).toMatchObject({ approvedBy: 'grace' })
})

test('a rejected job is cancelled, with the comment', async () => {
  const app = await apps.open({ tasks: [deploy], actor: 'grace' })
  const job = await app.submit(deploy, 1)

  await app.reject(job.id, 'not on a Friday')

  await expect(job.result()).rejects.toMatchObject({
    code: 'JOB_CANCELLED',
    error: 'rejected: not on a Friday',
  })
  expect(await app.getJob(job.id)).toMatchObject({ status: 'cancelled', approvedBy: 'grace' })
})

test('only what awaits approval can be approved or rejected, and only once', async () => {
  const app = await apps.open({ tasks: [deploy, probe] })
  const job = await app.submit(deploy, 1)
  const answers = await Promise.allSettled([
    app.approve(job.id),
    app.approve(job.id),
    app.reject(job.id, 'no'),
  ])
  expect(answers.filter((answer) => answer.status === 'fulfilled')).toHaveLength(1)

  const plain = await app.submit(probe, 1)
  await expect(app.approve(plain.id)).rejects.toMatchObject({
    code: 'ILLEGAL_TRANSITION',
    message: `job ${plain.id} is queued and cannot be approved: only a job that awaits approval can be`,
  })
  await expect(app.reject('424242', 'x')).rejects.toMatchObject({ code: 'JOB_NOT_FOUND' })
})

test('an approved job still waits for its time', async () => {
  const app = await apps.open({ tasks: [deploy] })
  const job = await app.submit(deploy, 1, { runAt: '1h' })
  await app.approve(job.id)

  expect(await app.getJob(job.id)).toMatchObject({ status: 'queued', state: 'scheduled' })
})

describe('the guard of a task', () => {
  const payout = task({ name: 'payout', run: (n: number) => n })
  const open = task({ name: 'payout', approval: false, run: (n: number) => n })

  test('stays when a program starts that says nothing of approval', async () => {
    const config = await configOf('tasks: { payout: { approval: true } }')
    await apps.open({ tasks: [payout], config })
    const producer = await apps.open({ tasks: [payout] })
    expect(await statusOf(producer)).toBe('awaiting_approval')

    await apps.open({ tasks: [payout], config: await configOf('lanes: { other: {} }') })
    expect(await statusOf(producer)).toBe('awaiting_approval')

    // What else a program or a file says of the task applies.
    await apps.open({ tasks: [payout], config: await configOf('tasks: { payout: { priority: 4 } }') })
    const job = await producer.submit('payout', 1)
    expect(await producer.getJob(job.id)).toMatchObject({ status: 'awaiting_approval', priority: 4 })
  })

  test('goes where code or a file says approval: false', async () => {
    const guarded = await configOf('tasks: { payout: { approval: true } }')
    const app = await apps.open({ tasks: [payout], config: guarded })
    await apps.open({ tasks: [open] })
    expect(await statusOf(app)).toBe('queued')
    await apps.open({ tasks: [payout] })
    expect(await statusOf(app)).toBe('queued')

    await apps.open({ tasks: [open], config: guarded })
    expect(await statusOf(app)).toBe('awaiting_approval')
    await apps.open({
      tasks: [payout],
      config: await configOf('tasks: { payout: { approval: false } }'),
    })
    expect(await statusOf(app)).toBe('queued')
  })

  test('is not there for a new task of which nobody says anything', async () => {
    const app = await apps.open({ tasks: [task({ name: 'fresh', run: (n: number) => n })] })
    expect(await statusOf(app, 'fresh')).toBe('queued')
  })
})

async function statusOf(app: Awaited<ReturnType<typeof apps.open>>, name = 'payout'): Promise<string> {
  return (await app.getJob((await app.submit(name, 1)).id)).status
}

async function configOf(text: string): Promise<LoadedConfig> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-approval-'))
  try {
    await writeFile(join(folder, 'sluice.yaml'), text)
    return await loadConfig({ folder })
  } finally {
    await rm(folder, { recursive: true })
  }
}
