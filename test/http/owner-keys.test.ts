import { beforeAll, describe, expect, test } from 'vitest'
import { fireDue } from '../../src/engine/schedules/fire-schedules.ts'
import { task } from '../../src/index.ts'
import { useApps } from '../support/apps.ts'
import { useDatabase } from '../support/database.ts'
import { useServer } from '../support/http-server.ts'
import { moveTicks, readClockOf } from '../support/state/schedules.ts'

const bill = task({ name: 'bill', keys: 'owner', run: async (input: unknown) => input })
const steps: string[] = []
const stepped = task({
  name: 'stepped',
  keys: 'owner',
  retry: { attempts: 1 },
  run: async (_: unknown, ctx) => {
    const { submittedBy } = await server.app.getJob(ctx.job.id)
    const seen = await ctx.step('look', async () => {
      steps.push(submittedBy!)
      return `the step ran for ${submittedBy}`
    })
    throw new Error(seen)
  },
})
const echo = task({ name: 'echo', run: async (input: unknown) => input })
const database = useDatabase()
const apps = useApps(database)
const server = useServer(database, { tasks: [bill, echo, stepped] })
const keys = { ann: '', bob: '', olga: '' }

beforeAll(async () => {
  keys.ann = await server.keyOf('submitter', 'ann')
  keys.bob = await server.keyOf('submitter', 'bob')
  keys.olga = await server.keyOf('operator', 'olga')
})

const submit = (who: keyof typeof keys, key: string, input: unknown, name = 'bill') =>
  server.call('POST', '/jobs', { key: keys[who], body: { task: name, key, input } })

async function idOf(answer: ReturnType<typeof submit>): Promise<string> {
  const { status, json } = await answer
  expect(status).toBe(202)
  return json<{ id: string }>().id
}

describe('a task whose keys are each owner\u2019s', () => {
  test('gives everybody a job of their own under the same key, so that nobody squats a name', async () => {
    const anns = await idOf(submit('ann', 'invoice-7', 'of Ann'))
    const bobs = await idOf(submit('bob', 'invoice-7', 'of Bob'))
    expect(bobs).not.toBe(anns)
    // Each attaches to their own, and is refused by their own.
    expect((await submit('ann', 'invoice-7', 'of Ann')).json()).toEqual({ id: anns, attached: true })
    expect((await submit('bob', 'invoice-7', 'of Bob')).json()).toEqual({ id: bobs, attached: true })
    expect((await submit('bob', 'invoice-7', 'of Ann')).json()).toMatchObject({ status: 409, jobId: bobs })
    // Once it has ended the key is free again, for its owner.
    await server.call('DELETE', `/jobs/${bobs}`, { key: keys.bob })
    const again = await idOf(submit('bob', 'invoice-7', 'other'))
    expect((await server.call('GET', `/jobs/${again}`, { key: keys.bob })).json().submittedBy).toBe('bob')
  })

  test('holds one active job per owner and key, however many are sent at once', async () => {
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, n) => submit(n % 2 === 0 ? 'ann' : 'bob', 'together', 'same')),
    )
    const ids = new Set(answers.map((answer) => answer.json<{ id: string }>().id))
    expect(ids.size).toBe(2)
    expect(answers.filter(({ status }) => status === 202)).toHaveLength(2)
  })

  test('keeps results apart too, also from those who may read all of them', async () => {
    const put = (who: keyof typeof keys) =>
      server.call('PUT', '/results/bill/report-3', { key: keys[who], body: { input: 1 } })
    const ann = (await put('ann')).json<{ jobId: string }>()
    const olga = (await put('olga')).json<{ jobId: string }>()
    expect(olga.jobId).not.toBe(ann.jobId)
    const found = await server.call('GET', '/results/bill/report-3', { key: keys.olga })
    expect(found.json<{ jobId: string }>().jobId).toBe(olga.jobId)
  })

  test('gives the schedule of somebody else a job of its own', async () => {
    const anns = await idOf(submit('ann', 'nightly', null))
    const body = { name: 'bobs', task: 'bill', cron: '0 3 * * *', key: 'nightly' }
    expect((await server.call('POST', '/schedules', { key: keys.bob, body })).status).toBe(201)
    const fired = await server.call('POST', '/schedules/bobs/fire', { key: keys.bob })
    expect(fired.status).toBe(202)
    expect(fired.json<{ id: string }>().id).not.toBe(anns)
  })

  test('gives the steps of a failed job to the next job of its owner only', async () => {
    const worker = await apps.open({ tasks: [stepped] })
    await worker.work()
    const run = async (who: keyof typeof keys) => {
      const { id } = (await submit(who, 'steps', 1, 'stepped')).json<{ id: string }>()
      return (await server.app.job(id).result().catch(String)) as string
    }
    expect(await run('ann')).toContain('the step ran for ann')
    expect(await run('bob')).toContain('the step ran for bob')
    expect(await run('ann')).toContain('the step ran for ann')
    expect(steps).toEqual(['ann', 'bob'])
  })

  test('stays so when a program says nothing of its keys, until one says that they are shared', async () => {
    const plain = { name: 'bill', run: async (input: unknown) => input }
    await apps.open({ tasks: [task(plain)] })
    const anns = await idOf(submit('ann', 'kept', 1))
    expect(await idOf(submit('bob', 'kept', 2))).not.toBe(anns)
    await apps.open({ tasks: [task({ ...plain, keys: 'shared' })] })
    await idOf(submit('ann', 'given', 1))
    expect((await submit('bob', 'given', 2)).status).toBe(409)
    await apps.open({ tasks: [bill] })
  })
})

describe('a conflict on a key that is shared', () => {
  test('says whom to ask, to those who may know', async () => {
    const id = await idOf(submit('ann', 'shared', 1, 'echo'))
    const refused = await submit('olga', 'shared', 2, 'echo')
    expect([refused.status, refused.json()]).toMatchObject([
      409,
      { code: 'KEY_CONFLICT', jobId: id, owner: 'ann', detail: expect.stringContaining('ask ann') },
    ])
    const bulk = await server.call('POST', '/jobs/bulk', {
      key: keys.olga,
      body: { jobs: [{ task: 'echo' }, { task: 'echo', key: 'shared', input: 2 }] },
    })
    expect(bulk.json()).toMatchObject({ status: 409, index: 1, owner: 'ann' })
    await expect(server.app.submit('echo', 2, { key: 'shared' })).rejects.toThrow(
      `is held by job ${id} of ann, which has another input`,
    )
  })

  test('names nobody when a job cannot run again because of its key', async () => {
    const id = await idOf(submit('ann', 'rerun', 1, 'echo'))
    await server.call('DELETE', `/jobs/${id}`, { key: keys.ann })
    await idOf(submit('bob', 'rerun', 1, 'echo'))
    for (const key of [keys.ann, keys.olga]) {
      const refused = await server.call('POST', `/jobs/${id}/retry`, { key, body: {} })
      expect([refused.status, refused.json()]).toMatchObject([
        409,
        {
          code: 'KEY_CONFLICT',
          detail: `job ${id} cannot run again, because another active job has its key`,
        },
      ])
      for (const field of ['owner', 'jobId', 'again']) expect(refused.json()).not.toHaveProperty(field)
    }
  })

  test('does not say it to others, also not in the record of a schedule', async () => {
    await idOf(submit('ann', 'secret', 1, 'echo'))
    const refused = await submit('bob', 'secret', 2, 'echo')
    expect([refused.status, refused.json().owner]).toEqual([409, undefined])
    expect(refused.json().detail).toContain('An operator can see whose it is')
    expect(refused.text).not.toMatch(/\bann\b/)
    const body = { name: 'curious', task: 'echo', cron: '0 3 * * *', key: 'secret', input: 2 }
    expect((await server.call('POST', '/schedules', { key: keys.bob, body })).status).toBe(201)
    const fired = await server.call('POST', '/schedules/curious/fire', { key: keys.bob })
    expect([fired.status, fired.text]).toEqual([409, expect.not.stringMatching(/\bann\b/)])
    // Its tick of yesterday is made up for.
    const yesterday = new Date((await readClockOf(database.sql)).getTime() - 86_400_000)
    await moveTicks(database.sql, new Date(yesterday.setUTCHours(3, 0, 0, 0)), ['curious'])
    await fireDue(server.app.services.calls, { debug() {}, info() {}, warn() {}, error() {} })
    const path = '/schedules/curious/firings'
    const { firings } = (await server.call('GET', path, { key: keys.bob })).json<{ firings: object[] }>()
    const [record] = firings
    expect(record).toMatchObject({
      skipped: 'refused',
      reason: "key 'secret' of task echo is held by a job that has another input",
    })
  })
})
