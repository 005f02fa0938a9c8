import { beforeAll, describe, expect, test } from 'vitest'
import { fail, sluice, task } from '../../src/index.ts'
import { useDatabase } from '../support/database.ts'
import { useServer } from '../support/http-server.ts'
import { readAudit } from '../support/state/audit.ts'
import { moveTicks } from '../support/state/schedules.ts'
import { until } from '../support/until.ts'

// What needs approval is seen by two people: nobody approves what runs with an input of their own, on whatever way it got there.
const payout = task({ name: 'payout', approval: true, run: (input: unknown) => input })
const look = task({ name: 'look', run: (input: unknown) => input })
const flaky = task({
  name: 'flaky',
  run: () => {
    throw fail('not today')
  },
})
const database = useDatabase()
const server = useServer(database, {
  tasks: [payout, look, flaky],
  workflows: [
    { name: 'risky', definition: { steps: { only: { task: 'flaky' } } } },
    {
      name: 'pay',
      definition: {
        steps: {
          amount: { task: 'look', with: { amount: '${{ input.amount }}' } },
          transfer: {
            task: 'payout',
            needs: ['amount'],
            with: { amount: '${{ steps.amount.result.amount }}' },
          },
        },
      },
    },
  ],
})
const keys = { ann: '', olga: '', otto: '', admin: '' }

beforeAll(async () => {
  keys.ann = await server.keyOf('submitter', 'ann')
  keys.olga = await server.keyOf('operator', 'olga')
  keys.otto = await server.keyOf('operator', 'otto')
  keys.admin = await server.keyOf('platform_admin', 'ada')
  await server.app.work()
})

interface Job {
  readonly id: string
  readonly status: string
  readonly rootId: string | null
}

async function submit(
  key: string,
  what: { task: string } | { workflow: string },
  amount: number,
): Promise<string> {
  const answer = await server.call('POST', '/jobs', { key, body: { ...what, input: { amount } } })
  expect(answer.status, answer.text).toBe(202)
  return answer.json<{ id: string }>().id
}

async function approve(key: string, id: string): Promise<[number, string | undefined]> {
  const answer = await server.call('POST', `/jobs/${id}/approve`, { key })
  return [answer.status, answer.json<{ code?: string }>().code]
}

function reached(id: string, status: string): Promise<Job> {
  return until(async () => {
    const job = (await server.call('GET', `/jobs/${id}`, { key: keys.otto })).json<Job>()
    return job.status === status && job
  }, `job ${id} to be ${status}`)
}

/** The payout of a run of `pay` that waits for approval. */
function guardedStep(root: string): Promise<string> {
  return until(async () => {
    const query = 'status=awaiting_approval&children=true&limit=100'
    const waiting = await server.call('GET', `/jobs?${query}`, { key: keys.otto })
    return waiting.json<{ jobs: Job[] }>().jobs.find(({ rootId }) => rootId === root)?.id
  }, `a payout of job ${root} to wait`)
}

async function retry(key: string, id: string): Promise<void> {
  const answer = await server.call('POST', `/jobs/${id}/retry`, { key })
  expect(answer.status, answer.text).toBe(202)
}

describe('a job that ran with approval asks again', () => {
  test('when it is run again as it was, and its submitter cannot approve it', async () => {
    const id = await submit(keys.olga, { task: 'payout' }, 1)
    expect(await approve(keys.otto, id)).toEqual([200, undefined])
    await reached(id, 'completed')

    await retry(keys.olga, id)

    expect(await reached(id, 'awaiting_approval')).toMatchObject({ approvedBy: null, deadlineAt: null })
    // An operator may approve jobs, but not one with an input of their own.
    expect(await approve(keys.olga, id)).toEqual([403, 'FORBIDDEN'])
    expect(await approve(keys.otto, id)).toEqual([200, undefined])
    await reached(id, 'completed')
  })

  test('after an operator cancelled it and tried to delete its task', async () => {
    const id = await submit(keys.olga, { task: 'payout' }, 1)
    await reached(id, 'awaiting_approval')
    expect((await server.call('DELETE', `/jobs/${id}`, { key: keys.olga })).status).toBeLessThan(300)
    await reached(id, 'cancelled')
    const deleted = await server.call('DELETE', '/admin/workers/tasks/payout', { key: keys.olga })
    expect([deleted.status, deleted.json()]).toMatchObject([
      409,
      { code: 'TASK_NEEDS_APPROVAL', detail: expect.stringContaining('Set approval: false') },
    ])

    await retry(keys.olga, id)

    await reached(id, 'awaiting_approval')
    expect(await approve(keys.olga, id)).toEqual([403, 'FORBIDDEN'])
    await expect(server.app.deleteTask('payout')).rejects.toMatchObject({ code: 'TASK_NEEDS_APPROVAL' })
  })

  test('also when its task has not needed approval since', async () => {
    const job = { name: 'refund', run: (input: unknown) => input }
    const declare = async (approval: boolean) =>
      (await sluice({ database: database.url, tasks: [task({ ...job, approval })] })).close()
    await declare(true)
    const id = await submit(keys.olga, { task: 'refund' }, 1)
    expect(await approve(keys.otto, id)).toEqual([200, undefined])
    expect((await server.call('DELETE', `/jobs/${id}`, { key: keys.olga })).status).toBeLessThan(300)
    await reached(id, 'cancelled')
    await declare(false)
    await retry(keys.olga, id)
    await reached(id, 'awaiting_approval')
    // The task may be deleted now, and a job that has no task asks too.
    expect((await server.call('DELETE', `/jobs/${id}`, { key: keys.olga })).status).toBeLessThan(300)
    await server.app.deleteTask('refund')
    await retry(keys.olga, id)
    await reached(id, 'awaiting_approval')
  })

  test('as a step of a workflow too', async () => {
    const root = await submit(keys.ann, { workflow: 'pay' }, 2)
    await approve(keys.olga, await guardedStep(root))
    await reached(root, 'completed')
    const retried = await server.call('POST', `/jobs/${root}/retry`, {
      key: keys.ann,
      body: { from: 'transfer' },
    })
    expect(retried.status).toBe(202)
    await approve(keys.olga, await guardedStep(root))
    await reached(root, 'completed')
  })
})

test('a step that failed before its task was guarded asks when it is retried', async () => {
  const root = await submit(keys.ann, { workflow: 'risky' }, 3)
  await reached(root, 'failed')
  const guarded = await sluice({ database: database.url, tasks: [{ ...flaky, approval: true }] })
  await guarded.close()
  const retried = await server.call('POST', `/jobs/${root}/retry`, { key: keys.ann, body: { failed: true } })
  expect(retried.status).toBe(202)
  await approve(keys.olga, await guardedStep(root))
  await reached(root, 'failed')
})

describe('nobody approves an input that they chose', () => {
  test("by editing somebody else's schedule", async () => {
    const name = 'monthly'
    const created = await server.call('POST', '/schedules', {
      key: keys.ann,
      body: { name, task: 'payout', cron: '0 0 1 1 *', input: { amount: 3 } },
    })
    expect(created.status).toBe(201)
    const edited = await server.call('PATCH', `/schedules/${name}`, {
      key: keys.olga,
      body: { input: { amount: 3_000_000 } },
    })
    expect(edited.status).toBe(200)
    // Somebody else's change of another field does not make it theirs.
    await server.call('PATCH', `/schedules/${name}`, {
      key: keys.otto,
      body: { catchUp: 1, tags: ['audited'], priority: 7, cron: '0 0 2 1 *' },
    })

    const fired = await server.call('POST', `/schedules/${name}/fire`, { key: keys.otto })
    const { id } = fired.json<{ id: string }>()

    expect(await approve(keys.olga, id)).toEqual([403, 'FORBIDDEN'])
    expect(await approve(keys.ann, id)).toEqual([403, 'FORBIDDEN'])
    expect(await approve(keys.otto, id)).toEqual([403, 'FORBIDDEN']) // asked for it
    expect(await approve(keys.admin, id)).toEqual([200, undefined])
    // It is somebody else's input to her, and the audit has no mark.
    expect((await readAudit(database.sql, `job ${id}`, 'job.approve')).at(-1)).toMatchObject({
      actor: 'ada',
      after: expect.not.objectContaining({ own: true }),
    })
  })

  test("by editing somebody else's schedule, also where another one then changes its task", async () => {
    const name = 'two-edits'
    const body = { name, task: 'look', cron: '0 3 * * *', input: { amount: 1 } }
    expect((await server.call('POST', '/schedules', { key: keys.ann, body })).status).toBe(201)
    const edit = (key: string, change: object) =>
      server.call('PATCH', `/schedules/${name}`, { key, body: change })
    expect((await edit(keys.olga, { input: { amount: 777 } })).status).toBe(200)
    expect((await edit(keys.otto, { task: 'payout' })).status).toBe(200)
    const fired = await server.call('POST', `/schedules/${name}/fire`, { key: keys.ann })
    const { id } = fired.json<{ id: string }>()
    expect(await approve(keys.olga, id)).toEqual([403, 'FORBIDDEN'])
    expect(await approve(keys.otto, id)).toEqual([403, 'FORBIDDEN'])
    expect(await approve(keys.admin, id)).toEqual([200, undefined])
  })

  test('nor what such a schedule submits at its time', async () => {
    // Two fire together; one that missed a tick is fired by itself.
    const names = ['first', 'second', 'late']
    for (const name of names) {
      const body = { name, task: 'payout', cron: '* * * * *', input: { schedule: name } }
      expect((await server.call('POST', '/schedules', { key: keys.ann, body })).status).toBe(201)
      await server.call('PATCH', `/schedules/${name}`, { key: keys.olga, body: { input: { edited: name } } })
    }
    const minute = Math.floor(Date.now() / 60_000) * 60_000
    await moveTicks(database.sql, new Date(minute), ['first', 'second'])
    await moveTicks(database.sql, new Date(minute - 300_000), ['late'])
    for (const name of names) {
      const id = await until(async () => {
        const { firings } = (
          await server.call('GET', `/schedules/${name}/firings`, { key: keys.otto })
        ).json<{ firings: { jobId: string | null }[] }>()
        return firings.find(({ jobId }) => jobId !== null)?.jobId
      }, `schedule ${name} to fire`)
      expect([name, ...(await approve(keys.olga, id))]).toEqual([name, 403, 'FORBIDDEN'])
      expect([name, ...(await approve(keys.otto, id))]).toEqual([name, 200, undefined])
    }
  })

  test('by retrying a guarded step with another input', async () => {
    const root = await submit(keys.ann, { workflow: 'pay' }, 4)
    await approve(keys.olga, await guardedStep(root))
    await reached(root, 'completed')
    const retried = await server.call('POST', `/jobs/${root}/retry`, {
      key: keys.olga,
      body: { from: 'transfer', input: { amount: 4_000_000 } },
    })
    expect(retried.status).toBe(202)

    const step = await guardedStep(root)
    const refused = await server.call('POST', `/jobs/${step}/approve`, { key: keys.olga })
    expect(refused.json()).toMatchObject({
      code: 'FORBIDDEN',
      detail: `job ${step} runs with an input that you chose: another person must decide about it`,
    })
    expect(await approve(keys.otto, step)).toEqual([200, undefined])
    await reached(root, 'completed')
  })

  test('by retrying the step before it with another input', async () => {
    const root = await submit(keys.ann, { workflow: 'pay' }, 5)
    await approve(keys.otto, await guardedStep(root))
    await reached(root, 'completed')
    await server.call('POST', `/jobs/${root}/retry`, {
      key: keys.olga,
      body: { from: 'amount', input: { amount: 5_000_000 } },
    })
    expect(await approve(keys.olga, await guardedStep(root))).toEqual([403, 'FORBIDDEN'])
    await approve(keys.otto, await guardedStep(root))
    await reached(root, 'completed')
  })

  test('except a platform_admin, and then the audit says so', async () => {
    const id = await submit(keys.admin, { task: 'payout' }, 6)
    expect(await approve(keys.admin, id)).toEqual([200, undefined])
    const lines = await readAudit(database.sql, `job ${id}`, 'job.approve')
    expect(lines).toMatchObject([{ actor: 'ada', after: { own: true } }])
  })

  test('except a platform_admin who edited a schedule, and then the audit says so too', async () => {
    const name = 'edited-by-admin'
    const body = { name, task: 'payout', cron: '0 0 1 1 *', input: { amount: 7 } }
    expect((await server.call('POST', '/schedules', { key: keys.ann, body })).status).toBe(201)
    const change = { key: keys.admin, body: { input: { amount: 7_000_000 } } }
    expect((await server.call('PATCH', `/schedules/${name}`, change)).status).toBe(200)
    const fired = await server.call('POST', `/schedules/${name}/fire`, { key: keys.otto })
    const { id } = fired.json<{ id: string }>()
    expect(await approve(keys.admin, id)).toEqual([200, undefined])
    const lines = await readAudit(database.sql, `job ${id}`, 'job.approve')
    expect(lines).toMatchObject([{ actor: 'ada', after: { own: true } }])
  })
})
