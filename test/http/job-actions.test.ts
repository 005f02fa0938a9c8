import { once } from 'node:events'
import { beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { type Flow, task, workflow } from '../../src/index.ts'
import { useDatabase } from '../support/database.ts'
import { Gate } from '../support/gate.ts'
import { useServer } from '../support/http-server.ts'
import { until } from '../support/until.ts'

let gate = new Gate()
const echo = task({ name: 'echo', run: async (input: unknown) => input })
const held = task({
  name: 'held',
  run: async (_: unknown, { signal }) => {
    void gate.pass()
    if (!signal.aborted) await once(signal, 'abort')
    throw signal.reason
  },
})
const guarded = task({ name: 'guarded', approval: true, run: async () => 'done' })
const fragile = task({
  name: 'fragile',
  retry: { attempts: 1 },
  run: async ({ good }: { good: boolean }) => {
    if (!good) throw new Error('not good')
    return 'mended'
  },
})
const steps = workflow({
  name: 'steps',
  steps: (flow: Flow<unknown>) => {
    const first = flow.step('first', echo, { n: 1 })
    flow.step('second', fragile, { good: false }, { needs: [first] })
  },
})
const database = useDatabase()
const server = useServer(database, { tasks: [echo, held, guarded, fragile], workflows: [steps] })
const keys = { ann: '', bob: '', viewer: '', approver: '', operator: '', admin: '' }

beforeAll(async () => {
  keys.ann = await server.keyOf('submitter', 'ann')
  keys.bob = await server.keyOf('submitter', 'bob')
  keys.viewer = await server.keyOf('viewer', 'vera')
  keys.approver = await server.keyOf('approver', 'amy')
  keys.operator = await server.keyOf('operator', 'olga')
  keys.admin = await server.keyOf('platform_admin', 'root')
})
beforeEach(() => {
  gate = new Gate()
})

async function submit(key: string, body: object): Promise<string> {
  const answer = await server.call('POST', '/jobs', { key, body })
  expect(answer.status, answer.text).toBe(202)
  return answer.json<{ id: string }>().id
}

async function working(test: () => Promise<void>): Promise<void> {
  await server.app.work({ capacity: 0 })
  try {
    await test()
  } finally {
    gate.open()
    await server.app.stopWorking()
  }
}

async function status(id: string): Promise<string> {
  return (await server.app.getJob(id)).status
}

async function audited(id: string, action: string) {
  return database.sql<{ actor: string; before: unknown; after: unknown; refused: string | null }>(
    'select actor, before, after, refused from sluice.audit where target = $1 and action = $2 order by id',
    [`job ${id}`, action],
  )
}

describe('DELETE /jobs/:id', () => {
  test('cancels a waiting job, then deletes it, both in the audit', async () => {
    const id = await submit(keys.ann, { task: 'echo' })
    const cancelled = await server.call('DELETE', `/jobs/${id}`, { key: keys.ann })
    expect([cancelled.status, cancelled.json()]).toEqual([200, { id, deleted: false, status: 'cancelled' }])
    expect((await server.app.getJob(id)).error).toBe('cancelled: by ann')
    const deleted = await server.call('DELETE', `/jobs/${id}`, { key: keys.ann })
    expect([deleted.status, deleted.json()]).toEqual([200, { id, deleted: true }])
    expect((await server.call('GET', `/jobs/${id}`, { key: keys.ann })).status).toBe(404)
    expect(await audited(id, 'job.cancel')).toEqual([
      {
        actor: 'ann',
        before: { status: 'queued' },
        after: { status: 'cancelled', reason: 'by ann' },
        refused: null,
      },
    ])
    expect(await audited(id, 'job.delete')).toEqual([
      { actor: 'ann', before: { status: 'cancelled' }, after: null, refused: null },
    ])
  })

  test('asks a running job to stop', async () => {
    await working(async () => {
      const id = await submit(keys.ann, { task: 'held' })
      await gate.arrived()
      const answer = await server.call('DELETE', `/jobs/${id}?reason=no+longer+needed`, { key: keys.ann })
      expect([answer.status, answer.json()]).toEqual([202, { id, deleted: false, status: 'running' }])
      await until(async () => (await status(id)) === 'cancelled', `job ${id} to be cancelled`)
      expect((await server.app.getJob(id)).error).toContain('no longer needed')
    })
  })

  test("does not reach somebody else's job, which is not there for those who see only their own", async () => {
    const id = await submit(keys.ann, { task: 'echo' })
    const hidden = await server.call('DELETE', `/jobs/${id}`, { key: keys.bob })
    expect([hidden.status, hidden.json().code]).toEqual([404, 'JOB_NOT_FOUND'])
    const seen = await server.call('DELETE', `/jobs/${id}`, { key: keys.viewer })
    expect(seen.status).toBe(403)
    expect(await status(id)).toBe('queued')
    const operator = await server.call('DELETE', `/jobs/${id}`, { key: keys.operator })
    expect(operator.json()).toMatchObject({ status: 'cancelled' })
  })
})

describe('approval', () => {
  test('comes from somebody else, with a comment in the audit', async () => {
    const id = await submit(keys.ann, { task: 'guarded' })
    expect(await status(id)).toBe('awaiting_approval')
    const answer = await server.call('POST', `/jobs/${id}/approve`, {
      key: keys.approver,
      body: { comment: 'looks right' },
    })
    expect([answer.status, answer.json()]).toEqual([200, { id, status: 'queued' }])
    expect((await server.app.getJob(id)).approvedBy).toBe('amy')
    expect(await audited(id, 'job.approve')).toMatchObject([
      { actor: 'amy', after: { status: 'queued', comment: 'looks right' } },
    ])
    const again = await server.call('POST', `/jobs/${id}/approve`, { key: keys.approver })
    expect([again.status, again.json().code]).toEqual([409, 'ILLEGAL_TRANSITION'])
    expect(await audited(id, 'job.approve')).toMatchObject([{}, { refused: 'ILLEGAL_TRANSITION' }])
  })

  test('is not given by the author, except by a platform_admin; the attempt is written down', async () => {
    const own = await submit(keys.operator, { task: 'guarded' })
    const refused = await server.call('POST', `/jobs/${own}/approve`, { key: keys.operator })
    expect([refused.status, refused.json().code]).toEqual([403, 'FORBIDDEN'])
    expect(await status(own)).toBe('awaiting_approval')
    expect(await audited(own, 'job.approve')).toMatchObject([{ actor: 'olga', refused: 'FORBIDDEN' }])
    const admin = await submit(keys.admin, { task: 'guarded' })
    expect((await server.call('POST', `/jobs/${admin}/approve`, { key: keys.admin })).status).toBe(200)
  })

  test('refused, the job is cancelled with the comment', async () => {
    const id = await submit(keys.ann, { task: 'guarded' })
    const answer = await server.call('POST', `/jobs/${id}/reject`, {
      key: keys.approver,
      body: { comment: 'too dear' },
    })
    expect(answer.json()).toEqual({ id, status: 'cancelled' })
    expect((await server.app.getJob(id)).error).toContain('rejected: too dear')
    const silent = await server.call('POST', `/jobs/${id}/reject`, { key: keys.approver })
    expect(silent.status).toBe(400)
  })
})

describe('POST /jobs/:id/retry', () => {
  test('runs a finished job again', async () => {
    const id = await submit(keys.ann, { task: 'echo' })
    expect((await server.call('POST', `/jobs/${id}/retry`, { key: keys.ann })).status).toBe(409)
    await server.call('DELETE', `/jobs/${id}`, { key: keys.ann })
    const answer = await server.call('POST', `/jobs/${id}/retry`, { key: keys.ann })
    expect([answer.status, answer.json()]).toEqual([
      202,
      { root: id, name: 'echo', jobs: 1, superseded: 0, refused: [] },
    ])
    expect(await status(id)).toBe('queued')
    await server.call('DELETE', `/jobs/${id}`, { key: keys.ann })
  })

  test('runs a step of a workflow again with another input', async () => {
    await working(async () => {
      const id = await submit(keys.ann, { workflow: 'steps', input: {} })
      await until(async () => (await status(id)) === 'failed', `workflow ${id} to fail`)
      const trace = (await server.call('GET', `/jobs/${id}/trace`, { key: keys.ann })).json<{
        failure: string
        levels: { task: string; error: string }[]
      }>()
      expect(trace.levels.map(({ task }) => task)).toEqual(['fragile', 'steps'])
      expect(trace.levels[0]!.error).toContain('not good')
      const tree = (await server.call('GET', `/jobs/${id}/tree`, { key: keys.ann })).json<{
        children: { step: string; status: string; children: unknown[] }[]
      }>()
      expect(tree.children.map((node) => [node.step, node.status])).toEqual([
        ['first', 'completed'],
        ['second', 'failed'],
      ])
      for (const path of ['tree', 'trace', 'attempts', 'logs'])
        expect((await server.call('GET', `/jobs/${trace.failure}/${path}`, { key: keys.bob })).status).toBe(
          404,
        )
      const wrong = await server.call('POST', `/jobs/${id}/retry`, { key: keys.ann, body: { from: 'third' } })
      expect([wrong.status, wrong.json().detail]).toEqual([400, expect.stringContaining('third')])
      const body = { from: 'second', input: { good: true } }
      expect((await server.call('POST', `/jobs/${id}/retry`, { key: keys.bob, body })).status).toBe(404)
      expect((await server.call('POST', `/jobs/${id}/retry`, { key: keys.ann, body })).status).toBe(202)
      await until(async () => (await status(id)) === 'completed', `workflow ${id} to complete`)
    })
  })
})

test('PATCH /jobs/:id/window says when there is none to resize', async () => {
  const id = await submit(keys.ann, { task: 'echo' })
  const body = { concurrency: 2 }
  const answer = await server.call('PATCH', `/jobs/${id}/window`, { key: keys.ann, body })
  expect([answer.status, answer.json().code]).toEqual([409, 'NO_WINDOW'])
  const wrong = await server.call('PATCH', `/jobs/${id}/window`, { key: keys.ann, body: { concurrency: -1 } })
  expect(wrong.status).toBe(400)
})

test('attempts and logs of a job are read page by page', async () => {
  await working(async () => {
    const id = await submit(keys.ann, { task: 'fragile', input: { good: true } })
    await until(async () => (await status(id)) === 'completed', `job ${id} to complete`)
    const attempts = await server.call('GET', `/jobs/${id}/attempts`, { key: keys.ann })
    expect(attempts.json()).toMatchObject({ attempts: [{ attempt: 1, ending: 'completed', error: null }] })
    await database.sql(
      `insert into sluice.logs (job_id, attempt, at, level, line)
       select $1, 1, clock_timestamp(), 'info', 'line ' || n from generate_series(1, 5) n`,
      [id],
    )
    const first = (await server.call('GET', `/jobs/${id}/logs?limit=3`, { key: keys.ann })).json<{
      lines: { line: string }[]
      next: string
    }>()
    expect(first.lines.map(({ line }) => line)).toEqual(['line 1', 'line 2', 'line 3'])
    const rest = (await server.call('GET', `/jobs/${id}/logs?after=${first.next}`, { key: keys.ann })).json<{
      lines: { line: string }[]
      next: string | null
    }>()
    expect(rest.lines.map(({ line }) => line)).toEqual(['line 4', 'line 5'])
    expect(rest.next).toBeNull()
  })
})
