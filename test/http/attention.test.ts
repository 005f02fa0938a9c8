import { beforeAll, expect, onTestFinished, test, vi } from 'vitest'
import type { Queryable } from '../../src/db/database.ts'
import { readNow } from '../../src/engine/views/now.ts'
import { ReadinessProbe } from '../../src/engine/views/readiness.ts'
import { task } from '../../src/index.ts'
import { type Attention, sentenceOf } from '../../src/model/attention.ts'
import { Cli } from '../cli/cli.ts'
import { createDatabase, type TestDatabase, useDatabase } from '../support/database.ts'
import { EventReader } from '../support/event-reader.ts'
import { Gate } from '../support/gate.ts'
import { startTestServer, useServer } from '../support/http-server.ts'
import * as state from '../support/state/attention.ts'
import { releaseDuty } from '../support/state/duties.ts'
import { ageWithdrawals, plantWithdrawal } from '../support/state/workers.ts'
import { findStep } from '../support/trees.ts'
import { until } from '../support/until.ts'

const gate = new Gate()
const goodOnes = new Gate()
const slow = task({ name: 'slow', lane: 'narrow', run: (_: unknown) => gate.pass() })
const bad = task({
  name: 'bad',
  retry: { attempts: 1 },
  run: () => {
    throw new Error('out of paper')
  },
})
const mixed = task({
  name: 'mixed',
  lane: 'narrow',
  retry: { attempts: 1 },
  run: (item: string) => {
    if (item === 'bad') throw new Error('out of paper')
    return goodOnes.pass()
  },
})
const picky = task({ name: 'picky', requires: { gpu: true }, run: (_: unknown) => null })
const gated = task({ name: 'gated', approval: true, run: (_: unknown) => null })
const database = useDatabase()
const cli = new Cli({ DATABASE_URL: database.url })
const server = useServer(database, {
  tasks: [slow, bad, mixed, picky, gated],
  // A silent worker is not declared dead before a busy machine has asked every interface.
  lanes: { narrow: { slots: 4, stale: '1m' } },
  workflows: [
    {
      name: 'doomed',
      definition: { steps: { fan: { task: 'mixed', with_items: '${{ input }}', with: '${{ item }}' } } },
    },
    {
      name: 'spread',
      definition: {
        steps: { fan: { task: 'slow', with_items: '${{ input }}', concurrency: 1, with: '${{ item }}' } },
      },
    },
  ],
})
let viewer = ''

beforeAll(async () => {
  viewer = await server.keyOf('viewer')
})

interface Readyz {
  readonly status: string
  readonly findings: readonly { readonly rule: string; readonly severity: string; readonly text?: string }[]
}

/** What each face says, once all three agree on what a rule has found. */
async function faces(rule: string): Promise<Attention> {
  const reader = new EventReader(server.url, '/live', viewer)
  const find = (data: { findings: readonly Attention[] }) => data.findings.find((each) => each.rule === rule)
  try {
    await reader.until(
      `Now to say ${rule}`,
      ({ last }) => last !== undefined && find(last.data) !== undefined,
    )
    const onNow = find(reader.last!.data)!
    const report = await cli.run(['doctor', '--json'])
    const { findings } = JSON.parse(report.stdout) as { findings: { check: string; level: string }[] }
    expect(findings).toContainEqual(
      expect.objectContaining({ check: onNow.subject, level: onNow.severity, advice: onNow.advice }),
    )
    const ready = await until(async () => {
      const answer = await server.at('GET', '/readyz')
      expect(answer.status).toBe(200)
      const { findings: all } = answer.json<Readyz>()
      return all.find((each) => each.rule === rule && each.text?.startsWith(start(onNow)))
    }, `/readyz to say ${rule}`)
    expect(ready.severity).toBe(onNow.severity)
    return onNow
  } finally {
    reader.close()
  }
}

/** Durations in a text go on. */
function start(finding: Attention): string {
  return sentenceOf(finding).split(/\d/)[0]!
}

async function sentences(): Promise<string[]> {
  return (await readNow(server.app.services.calls)).findings.map(sentenceOf)
}

test('a healthy system needs no attention, and /readyz tells strangers no names', async () => {
  await server.app.work({ name: 'w1', capacity: 4 })
  expect(await sentences()).toEqual([])
  await state.plantBrokenWorker(database.sql, 'secret-name', 'no disk')
  onTestFinished(() => state.removeWorker(database.sql, 'secret-name'))
  const answer = await until(async () => {
    const seen = await server.at('GET', '/readyz', { headers: { 'x-forwarded-for': '203.0.113.9' } })
    return seen.json<Readyz>().findings.length > 0 ? seen : undefined
  }, 'the finding')
  expect(answer.json()).toMatchObject({
    status: 'ready',
    findings: [{ rule: 'worker_broken', severity: 'problem' }],
  })
  expect(answer.text).not.toContain('secret-name')
})

test('/readyz never reports what an earlier request found', async () => {
  const probe = new ReadinessProbe(server.app.services.calls)
  expect(await probe.attention()).toEqual([])
  await state.plantBrokenWorker(database.sql, 'late', 'no disk')
  onTestFinished(() => state.removeWorker(database.sql, 'late'))
  const now = performance.now.bind(performance)
  vi.spyOn(performance, 'now').mockImplementation(() => now() + 3000)
  onTestFinished(() => void vi.restoreAllMocks())
  expect(await probe.attention()).toMatchObject([{ rule: 'worker_broken' }])
})

test('/readyz waits for what needs attention only for what is left of its second', async () => {
  const silent = new ReadinessProbe({ run: () => new Promise(() => {}) } as unknown as Queryable)
  const from = performance.now()
  expect(await silent.attention(from - 800)).toBeUndefined()
  expect(performance.now() - from).toBeLessThan(850)
})

test('a broken worker', async () => {
  await state.plantBrokenWorker(database.sql, 'bent', 'no workdir')
  onTestFinished(() => state.removeWorker(database.sql, 'bent'))
  const found = await faces('worker_broken')
  expect(sentenceOf(found)).toBe('Worker bent cannot start jobs: no workdir')
  expect(found).toMatchObject({ severity: 'problem', link: '/workers?name=bent' })
})

test('a silent worker', async () => {
  await state.plantSilentWorker(database.sql, 'ghost', 11)
  onTestFinished(() => state.removeWorker(database.sql, 'ghost'))
  expect(sentenceOf(await faces('worker_silent'))).toMatch(/^Worker ghost has sent no heartbeat for \d+s/)
})

test('every worker of a task draining', async () => {
  await server.app.drainWorker('w1')
  onTestFinished(() => server.app.drainWorker('w1', false).then(() => undefined))
  const idle = await faces('task_draining')
  expect(sentenceOf(idle)).toBe('Task bad cannot run: every worker that runs it is draining')
  const job = await server.app.submit('bad', null, { runAt: new Date(Date.now() - 1) })
  expect(await sentences()).toContain(
    'Task bad cannot run: every worker that runs it is draining, and 1 job waits',
  )
  await server.app.cancel(job.id)
})

test('a lane paused with jobs behind it, in the singular too', async () => {
  await server.app.setLane('narrow', { enabled: false })
  const one = await server.app.submit('slow', null)
  const found = await faces('lane_paused')
  expect(sentenceOf(found)).toBe('Lane narrow is paused while 1 job waits')
  const two = await server.app.submit('slow', null)
  expect(await sentences()).toContain('Lane narrow is paused while 2 jobs wait')
  await server.app.cancel(one.id)
  await server.app.cancel(two.id)
  await server.app.setLane('narrow', { enabled: true })
  expect(await sentences()).toEqual([])
})

test('a paused fan-out with children behind it', async () => {
  const { id } = await server.app.submit('spread', [1, 2, 3])
  const fan = await until(() => findStep(database.sql, id, 'fan'), 'the fan-out')
  await until(
    async () => (await server.app.listJobs({ task: 'slow', status: ['running'], children: true })).length > 0,
    'a child to run',
  )
  await server.app.resizeWindow(fan, 0)
  const found = await faces('fanout_paused')
  expect(sentenceOf(found)).toBe(`Fan-out fan of job ${id} is paused while 2 children wait`)
  await server.app.cancel(id)
  gate.open()
  await until(async () => (await server.app.getJob(id)).status === 'cancelled', 'it to end')
})

test('a label that no live worker has, within seconds', async () => {
  const { id } = await server.app.submit('picky', null)
  const found = await faces('labels_missing')
  expect(sentenceOf(found)).toBe(
    'Task picky requires label gpu=true, which no live worker that runs it has, and 1 job waits',
  )
  expect(found.advice).toBe('Start a worker with: sluice worker --label gpu=true')
  const { submittedAt } = await server.app.getJob(id)
  const now = (await database.sql('select clock_timestamp() as at'))[0]!.at as Date
  expect(now.getTime() - submittedAt.getTime()).toBeLessThan(9000)
  // Once, and not again as what waits.
  const { findings } = JSON.parse((await cli.run(['doctor', '--json'])).stdout)
  expect(findings.filter(({ check }: { check: string }) => check === 'task picky')).toHaveLength(1)
  await server.app.cancel(id)
})

test('failures that rise', async () => {
  const jobs = await server.app.submitMany('bad', [1, 2, 3, 4, 5])
  for (const job of jobs)
    await until(async () => (await server.app.getJob(job.id)).status === 'failed', 'it to fail')
  const found = await faces('failures_rising')
  expect(sentenceOf(found)).toBe(
    'Failures are rising: 5 jobs failed in the last 10 minutes, 0 in the 50 minutes before',
  )
  expect(found.advice).toBe('See what the errors have in common with: sluice errors --since 1h')
  for (const job of jobs) await server.app.remove(job.id)
})

test('a fan-out that cannot succeed any more', async () => {
  const run = await server.app.submit('doomed', ['bad', 'good', 'bad', 'good'])
  const found = await faces('fanout_failing')
  expect(found).toMatchObject({ severity: 'warning', link: `/workflows/${run.id}` })
  await until(
    async () =>
      (await sentences()).includes(
        `Fan-out fan of job ${run.id} is still running but will fail: 2 of 4 children failed; all must complete`,
      ),
    'both failures to be counted',
  )
  goodOnes.open()
  await until(async () => (await sentences()).every((each) => !each.startsWith('Fan-out')), 'its end')
})

test('a start deadline that is near', async () => {
  await server.app.setLane('narrow', { enabled: false })
  const { id } = await server.app.submit('slow', null)
  await state.plantNearDeadline(database.sql, id, 500)
  const found = await faces('deadline_near')
  expect(sentenceOf(found)).toMatch(
    new RegExp(`^Job ${id} of task slow must start within 8m\\d+s or it fails; its start deadline is 1h$`),
  )
  expect(found.link).toBe(`/jobs/${id}`)
  await server.app.cancel(id)
  await server.app.setLane('narrow', { enabled: true })
})

test('a duty that is late, and one that fails', async () => {
  await state.plantLateDuty(database.sql, 'prune', 200)
  expect(sentenceOf(await faces('duty_late'))).toMatch(/^Duty prune is 2m\d+s late$/)
  await state.plantFailedDuty(database.sql, 'prune', 'disk full')
  expect(sentenceOf(await faces('duty_failing'))).toBe('Duty prune fails: disk full')
  await releaseDuty(database.sql, 'prune')
})

test('a schedule whose last job failed', async () => {
  await server.app.createSchedule('nightly', { task: 'bad', cron: '0 3 * * *' })
  const { id: jobId } = await server.app.fireSchedule('nightly')
  await until(async () => (await server.app.getJob(jobId)).status === 'failed', 'it to fail')
  const found = await faces('schedule_failing')
  expect(sentenceOf(found)).toBe(`Schedule nightly failed: its last job, ${jobId}, ended with out of paper`)
  await server.app.removeSchedule('nightly')
})

test('jobs that wait for approval', async () => {
  const { id } = await server.app.submit('gated', null)
  expect(sentenceOf(await faces('approval_waiting'))).toBe('1 job waits for approval')
  await server.app.approve(id)
})

test('numbers of lanes are those of the list they lead to, whatever was sampled before', async () => {
  const own = await alone()
  await own.server.app.setLane('narrow', { enabled: false })
  await own.server.app.submitMany('slow', [1, 2, 3])
  const full = { lane: 'narrow', slots: 4, running: 4 }
  await state.plantSample(own.database.sql, 'slow', 33, 'lane_full', full)
  const now = await readNow(own.server.app.services.calls)
  const lane = now.lanes.find(({ name }) => name === 'narrow')
  expect(lane).toMatchObject({ depth: 3, running: 0, reason: null })
  expect(now.states.queued).toBe(3)
  expect(await own.server.app.listJobs({ status: ['queued'], lane: 'narrow' })).toHaveLength(3)
})

/** A server of its own: nobody works there, and no duty runs. */
async function alone(): Promise<{
  database: TestDatabase
  server: Awaited<ReturnType<typeof startTestServer>>
}> {
  const own = await createDatabase()
  const lone = await startTestServer(own.url, { tasks: [slow], lanes: { narrow: { slots: 4 } } })
  onTestFinished(async () => {
    await lone.stop()
    await own.drop()
  })
  return { database: own, server: lone }
}

test('names at most 20 workers that cannot start a task, and none that may have tried again since', async () => {
  const { database: own, server: lone } = await alone()
  for (let n = 0; n < 25; n++) {
    await state.plantBrokenWorker(own.sql, `w${n}`, 'test')
    await plantWithdrawal(own.sql, `w${n}`, 'slow', 'no program')
  }
  const withdrawn = async () =>
    (await readNow(lone.app.services.calls)).findings.filter(({ rule }) => rule === 'task_withdrawn')
  const [found] = await withdrawn()
  expect(found!.text.match(/w\d+/g)).toHaveLength(20)
  await state.plantBrokenWorker(own.sql, 'other', 'test')
  await plantWithdrawal(own.sql, 'other', 'slow', 'no disk')
  const [both] = await withdrawn()
  expect(both!.text).toMatch(
    /^cannot be started by workers w0, .+: no program; by worker other: no disk. No other worker/,
  )
  await ageWithdrawals(own.sql, 30)
  expect(await withdrawn()).toHaveLength(1)
  await ageWithdrawals(own.sql, 90)
  expect(await withdrawn()).toEqual([])
})
