import { expect, test } from 'vitest'
import { task } from '../../src/index.ts'
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
  expect((await app.why(job.id)).reason).toBe('it waits for somebody to approve it')

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
