import { beforeAll, describe, expect, test } from 'vitest'
import type { WhyBody } from '../../src/api/job-why.ts'
import { type Flow, task, workflow } from '../../src/index.ts'
import { sampleQueues } from '../../src/store/sample-queues.ts'
import { useDatabase } from '../support/database.ts'
import { Gate } from '../support/gate.ts'
import { useServer } from '../support/http-server.ts'
import { until } from '../support/until.ts'

const gate = new Gate()
const held = task({ name: 'held', lane: 'tight', run: (_: unknown) => gate.pass() })
const other = task({ name: 'other', lane: 'tight', run: async (_: unknown) => null })
const asks = task({ name: 'asks', approval: true, run: async (_: unknown) => null })
const choosy = task({ name: 'choosy', requires: { gpu: true }, run: async (_: unknown) => null })
const idle = task({ name: 'idle', lane: 'closed', run: async (_: unknown) => null })
const fan = workflow({
  name: 'fan',
  steps: (flow: Flow<unknown>) => {
    flow.each('each', [1, 2, 3, 4], held, (item) => item, { concurrency: 2 })
  },
})
const database = useDatabase()
const server = useServer(database, {
  tasks: [held, other, asks, choosy, idle],
  workflows: [fan],
  // A job that is assigned for a moment has no place in line.
  lanes: { tight: { prefetch: 'off', slots: 2 }, closed: { enabled: true } },
  actor: 'app',
})
const keys = { viewer: '', ann: '' }

async function why(id: string, key = keys.viewer): Promise<WhyBody> {
  const answer = await server.call('GET', `/jobs/${id}/why`, { key })
  expect([answer.status, answer.text]).toEqual([200, expect.any(String)])
  return answer.json<WhyBody>()
}

beforeAll(async () => {
  keys.viewer = await server.keyOf('viewer')
  keys.ann = await server.keyOf('submitter', 'ann')
})

describe('a job says what holds it', () => {
  test('somebody who approves it, or a time', async () => {
    const asked = await server.app.submit(asks, 1)
    expect(await why(asked.id)).toMatchObject({
      status: 'awaiting_approval',
      wait: { kind: 'approval' },
      position: null,
    })
    const later = await server.app.submit(idle, 1, { runAt: '1h', deadline: '3h' })
    const told = await why(later.id)
    expect(told).toMatchObject({ status: 'queued', wait: { kind: 'time' } })
    expect(told.estimateSeconds).toBeGreaterThan(3500)
    expect(told.deadlineAt).not.toBeNull()
    expect(told.words.join('\n')).toContain('it fails if it has not started by')
  })

  test('no worker, labels that none has, a lane that somebody disabled', async () => {
    const none = await server.app.submit(idle, 1)
    expect(await why(none.id)).toMatchObject({
      wait: { kind: 'no_worker', lane: 'closed' },
      position: 1,
      estimateSeconds: null,
      words: [expect.stringMatching(/^job \d+ \(idle\) is queued: no worker runs task idle$/)],
    })
    await server.app.setLane('closed', { enabled: false })
    expect(await why(none.id)).toMatchObject({ wait: { kind: 'lane_paused', lane: 'closed', by: 'app' } })
    await server.app.work({ capacity: 8, name: 'w1' })
    const unfit = await server.app.submit(choosy, 1)
    expect(await why(unfit.id)).toMatchObject({ wait: { kind: 'labels', requires: { gpu: true } } })
  })

  test('a full lane, with who is in it, its place in line and an estimate', async () => {
    const quick = await server.app.submitMany(other, [1, 2, 3, 4])
    for (const job of quick) await job.result()
    const running = await server.app.submitMany(held, [1, 2])
    await gate.arrived(2)
    await server.app.submit(other, 1)
    const last = (await server.call('POST', '/jobs', { key: keys.ann, body: { task: 'other' } })).json<{
      id: string
    }>()
    const told = await until(async () => {
      const found = await why(last.id)
      return found.wait.kind === 'lane_full' && found
    }, 'the lane to be full')
    expect(told).toMatchObject({
      wait: { kind: 'lane_full', lane: 'tight', limit: 2, inUse: 2 },
      position: 2,
      holders: running.map(({ id }) => ({ jobId: id, task: 'held', worker: 'w1' })),
      hiddenHolders: 0,
    })
    expect(told.estimateSeconds).toBeGreaterThan(0)
    expect(told.words).toEqual([
      `job ${last.id} (other) is queued: lane tight is full: 2 of 2 slots are busy`,
      '1 comes before it',
      expect.stringMatching(/^at the rate at which jobs ended recently, that takes about \d+ seconds?$/),
      expect.stringMatching(/^in flight: job \d+ \(held\) on w1 since 20/),
      expect.stringMatching(/^in flight: job \d+ \(held\) on w1 since 20/),
    ])
    await server.app.drainWorker('w1')
    expect(await why(last.id)).toMatchObject({
      wait: { kind: 'draining' },
      holders: [],
      estimateSeconds: null,
    })
    await server.app.drainWorker('w1', false)
    // Whoever sees only their own jobs does not see whose turn it is.
    expect(await why(last.id, keys.ann)).toMatchObject({ holders: [], hiddenHolders: 2, position: 2 })
  })

  test('a window, and a workflow its children', async () => {
    const tree = await server.app.submit(fan, {})
    const children = await until(async () => {
      const [fanOut] = await server.app.listJobs({ parent: tree.id })
      const found = fanOut && (await server.app.listJobs({ parent: fanOut.id }))
      return found?.length === 4 && { fanOut: fanOut!, found: [...found].reverse() }
    }, 'its children')
    const waiting = children.found[3]!
    // Those that are released are passed over while the lane is full. This one is not in line yet.
    await sampleQueues(server.app.services.calls)
    expect((await why(children.found[0]!.id)).passedOver).not.toEqual([])
    expect((await why(waiting.id)).passedOver).toEqual([])
    expect(await why(waiting.id)).toMatchObject({
      wait: { kind: 'window', parentId: children.fanOut.id, limit: 2, inUse: 2 },
      position: 2,
      holders: [{ jobId: children.found[0]!.id }, { jobId: children.found[1]!.id }],
    })
    expect(await why(children.fanOut.id)).toMatchObject({
      status: 'running',
      wait: { kind: 'children', limit: 4, inUse: 4 },
    })
    expect(await why(tree.id)).toMatchObject({
      wait: { kind: 'children' },
      holders: [{ jobId: children.fanOut.id }],
      reason: 'it waits for its steps: 0 of 1 steps have ended; step each: 0 of 4 done',
    })
    gate.open()
    await tree.result()
    expect(await why(tree.id)).toMatchObject({
      wait: { kind: 'nothing' },
      reason: 'it is not waiting: it has completed',
    })
    expect((await server.call('GET', `/jobs/${tree.id}/why`, { key: keys.ann })).status).toBe(404)
  })
})
