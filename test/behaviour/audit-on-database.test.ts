import { hostname, userInfo } from 'node:os'
import pg from 'pg'
import { expect, test } from 'vitest'
import { AccessControl } from '../../src/app/access-control.ts'
import { Sluice as SluiceClass } from '../../src/app/app.ts'
import { changeOf } from '../../src/cli/commands/audit.ts'
import { type Sluice, task } from '../../src/index.ts'
import { pruneAudit, pruneSubmissions } from '../../src/store/prune-access.ts'
import { useApps } from '../support/apps.ts'
import { useDatabase } from '../support/database.ts'
import { Gate } from '../support/gate.ts'
import * as state from '../support/state/audit.ts'
import { findStep } from '../support/trees.ts'
import { until } from '../support/until.ts'

const database = useDatabase()
const apps = useApps(database)
const gate = new Gate()
const plain = task({ name: 'plain', run: async () => null })
const slow = task({ name: 'slow', run: async (_: unknown) => gate.pass() })
const gated = task({ name: 'gated', approval: true, run: async () => null })
const spare = task({ name: 'spare', run: async () => null })
const WORK = {
  tasks: [plain, slow, gated, spare],
  budgets: { licences: 2, unused: 1 },
  fleet: { pools: { burst: {} } },
  schedules: { yearly: { task: 'plain', cron: '0 3 1 1 *' } },
  workflows: [
    {
      name: 'wide',
      definition: { steps: { fan: { task: 'slow', with_items: [1, 2, 3], concurrency: 1 } } },
    },
  ],
}

type Change = (app: Sluice) => Promise<string>

/** The methods of the library that change something an operator looks after, with what the audit has to say of each. */
const CHANGES: readonly (readonly [method: string, action: string, change: Change])[] = [
  ['submit', 'job.submit', async (app) => `job ${await newJob(app)}`],
  [
    'submitMany',
    'job.submit',
    async (app) => {
      const [job] = await app.submitMany('plain', [null], { runAt: '1h' })
      return `job ${job!.id}`
    },
  ],
  ['cancel', 'job.cancel', async (app) => target(await newJob(app), (id) => app.cancel(id))],
  [
    'cancelMany',
    'job.cancel',
    async (app) => target(await newJob(app, 'stop'), () => app.cancelMany({ tag: 'stop' })),
  ],
  ['reprioritise', 'job.priority', async (app) => target(await newJob(app), (id) => app.reprioritise(id, 5))],
  [
    'reprioritiseMany',
    'job.priority',
    async (app) => target(await newJob(app, 'first'), () => app.reprioritiseMany({ tag: 'first' }, 5)),
  ],
  [
    'approve',
    'job.approve',
    async (app) => target((await app.submit('gated', null)).id, (id) => app.approve(id)),
  ],
  [
    'reject',
    'job.reject',
    async (app) => target((await app.submit('gated', null)).id, (id) => app.reject(id, 'no')),
  ],
  ['retry', 'job.retry', async (app) => target(await ended(app), (id) => app.retry(id))],
  [
    'retryMany',
    'job.retry',
    async (app) =>
      target(await ended(app, 'again'), () => app.retryMany({ tag: 'again', status: ['cancelled'] })),
  ],
  ['rerun', 'job.retry', async (app) => target(await ended(app), (id) => app.rerun(id))],
  ['remove', 'job.delete', async (app) => target(await ended(app), (id) => app.remove(id))],
  ['setLane', 'lane.change', async (app) => app.setLane('system', { slots: 3 }).then(() => 'lane system')],
  ['resetLane', 'lane.reset', async (app) => app.resetLane('system').then(() => 'lane system')],
  [
    'createLane',
    'lane.create',
    async (app) => app.createLane('aside', { slots: 2 }).then(() => 'lane aside'),
  ],
  ['moveTask', 'task.move', async (app) => app.moveTask('spare', 'aside').then(() => 'task spare')],
  ['moveTask', 'task.reset', async (app) => app.moveTask('spare', null).then(() => 'task spare')],
  [
    'deleteLane',
    'lane.delete',
    async (app) => app.deleteLane('aside', { moveTo: 'default' }).then(() => 'lane aside'),
  ],
  ['deleteTask', 'task.delete', async (app) => app.deleteTask('spare').then(() => 'task spare')],
  [
    'createBudget',
    'budget.create',
    async (app) => app.createBudget('calls', { capacity: 9 }).then(() => 'budget calls'),
  ],
  [
    'setBudget',
    'budget.change',
    async (app) => app.setBudget('licences', { capacity: 3 }).then(() => 'budget licences'),
  ],
  ['resetBudget', 'budget.reset', async (app) => app.resetBudget('licences').then(() => 'budget licences')],
  ['removeBudget', 'budget.delete', async (app) => app.removeBudget('unused').then(() => 'budget unused')],
  ['setPool', 'pool.change', async (app) => app.setPool('burst', { max: 2 }).then(() => 'pool burst')],
  ['resetPool', 'pool.reset', async (app) => app.resetPool('burst').then(() => 'pool burst')],
  ['removePool', 'pool.delete', async (app) => app.removePool('burst').then(() => 'pool burst')],
  [
    'setAdmission',
    'admission.change',
    async (app) => app.setAdmission({ maxActive: 500 }).then(() => 'admission'),
  ],
  ['resetAdmission', 'admission.reset', async (app) => app.resetAdmission().then(() => 'admission')],
  [
    'createSchedule',
    'schedule.create',
    async (app) => {
      await app.createSchedule('nightly', { task: 'plain', cron: '0 3 * * *' })
      return 'schedule nightly'
    },
  ],
  [
    'setSchedule',
    'schedule.change',
    async (app) => app.setSchedule('nightly', { enabled: false }).then(() => 'schedule nightly'),
  ],
  [
    'fireSchedule',
    'schedule.fire',
    async (app) => app.fireSchedule('nightly').then(() => 'schedule nightly'),
  ],
  [
    'removeSchedule',
    'schedule.delete',
    async (app) => app.removeSchedule('nightly').then(() => 'schedule nightly'),
  ],
  [
    'resetSchedule',
    'schedule.reset',
    async (app) => app.resetSchedule('yearly').then(() => 'schedule yearly'),
  ],
  [
    'access.createKey',
    'key.create',
    async (app) => app.access.createKey({ name: 'x', role: 'viewer' }).then(({ id }) => `key ${id}`),
  ],
  [
    'access.changeKey',
    'key.change',
    async (app) => {
      const { id } = await app.access.createKey({ name: 'y', role: 'worker' })
      return app.access.changeKey(id, { runs: { tasks: ['*'] } }).then(() => `key ${id}`)
    },
  ],
  [
    'access.revokeKey',
    'key.revoke',
    async (app) => {
      const { id } = await app.access.createKey({ name: 'z', role: 'viewer' })
      return app.access.revokeKey(id).then(() => `key ${id}`)
    },
  ],
  [
    'access.createRole',
    'role.create',
    async (app) => app.access.createRole('reader', ['jobs:read']).then(() => 'role reader'),
  ],
  [
    'access.changeRole',
    'role.change',
    async (app) => app.access.changeRole('reader', ['jobs:read', 'jobs:submit']).then(() => 'role reader'),
  ],
  [
    'access.deleteRole',
    'role.delete',
    async (app) => app.access.deleteRole('reader').then(() => 'role reader'),
  ],
  ['drainWorker', 'worker.drain', async (app) => app.drainWorker('w').then(() => 'worker w')],
  ['drainWorker', 'worker.undrain', async (app) => app.drainWorker('w', false).then(() => 'worker w')],
  [
    'resizeWindow',
    'job.window',
    async (app) => {
      const fan = await runningFanOut(app)
      return target(fan, () => app.resizeWindow(fan, 0))
    },
  ],
  [
    'resumeWindow',
    'job.window',
    async (app) => {
      const fan = await runningFanOut(app)
      const about = await target(fan, () => app.resumeWindow(fan))
      gate.open()
      await until(async () => (await app.getJob(fan)).finishedAt !== null, 'it to end')
      return about
    },
  ],
  ['stopWorker', 'worker.stop', async (app) => app.stopWorker('w').then(() => 'worker w')],
]

/** The methods that read, or that concern this process alone. A new method belongs here or among CHANGES. */
const NO_CHANGES: ReadonlySet<string> = new Set([
  ...[
    'services',
    'access',
    'address',
    'databaseUrl',
    'job',
    'getJob',
    'listJobs',
    'errorGroups',
    'listAttempts',
  ],
  ...['readLogs', 'followLogs', 'why', 'watchTree', 'tree', 'trace', 'listLanes', 'laneOverrides', 'budgets'],
  ...['listSchedules', 'getSchedule', 'listFirings', 'admission', 'fleet', 'listWorkers', 'listTasks'],
  ...['sampleQueues', 'snapshot', 'work', 'startDuties', 'provision', 'stopWorking', 'close'],
  ...['access.listKeys', 'access.listRoles', 'access.readAudit'],
])

/** A fan-out whose children wait at the gate: the one that there is, or a new one. */
async function runningFanOut(app: Sluice): Promise<string> {
  const [found] = await app.listJobs({ task: 'wide', status: ['running'] })
  const id = found?.id ?? (await app.submit('wide', null)).id
  const fan = await until(() => findStep(database.sql, id, 'fan'), 'the fan-out')
  await until(async () => (await app.tree(fan, { depth: 0 })).counts?.window !== undefined, 'its window')
  return fan
}

async function target(id: string, change: (id: string) => Promise<unknown>): Promise<string> {
  await change(id)
  return `job ${id}`
}

async function newJob(app: Sluice, ...tags: string[]): Promise<string> {
  return (await app.submit('plain', null, { runAt: '1h', tags })).id
}

async function ended(app: Sluice, ...tags: string[]): Promise<string> {
  const id = await newJob(app, ...tags)
  await app.cancel(id)
  return id
}

test('writes every change made by the library into the audit, by user and host', {
  timeout: 120_000,
}, async () => {
  const app = await apps.open(WORK)
  const worker = await apps.open(WORK)
  await worker.work({ name: 'w' })
  const newest = async () => BigInt((await app.access.readAudit({}, { limit: 1 })).entries[0]?.id ?? 0)
  for (const [method, action, change] of CHANGES) {
    const before = await newest()
    const about = await change(app)
    const { entries } = await app.access.readAudit({ action, target: about })
    expect(BigInt(entries[0]?.id ?? 0) > before, `${method} writes ${action} ${about}`).toBe(true)
    expect(entries[0], method).toMatchObject({
      action,
      target: about,
      actor: `${userInfo().username}@${hostname()}`,
      keyId: null,
    })
  }
})

test('knows of each method of the library whether it changes something', () => {
  const methods = [
    ...Object.getOwnPropertyNames(SluiceClass.prototype),
    ...Object.getOwnPropertyNames(AccessControl.prototype).map((name) => `access.${name}`),
  ].filter((name) => !name.endsWith('constructor'))
  const audited = new Set(CHANGES.map(([method]) => method))
  expect(methods.filter((name) => audited.has(name) === NO_CHANGES.has(name))).toEqual([])
  expect([...audited, ...NO_CHANGES].filter((name) => !methods.includes(name))).toEqual([])
})

test('says what a cancel of something that runs asked for, and what an approved job became', async () => {
  const app = await apps.open(WORK)
  const holding = new Gate()
  const worker = await apps.open({
    tasks: [task({ name: 'held', run: () => holding.pass() })],
    workflows: [{ name: 'one', definition: { steps: { only: { task: 'held' } } } }],
  })
  await worker.work({ name: 'w' })
  const last = async (id: string) =>
    (await app.access.readAudit({ target: `job ${id}`, action: 'job.' })).entries[0]
  const tree = await app.submit('one', null)
  await holding.arrived()
  await app.cancel(tree.id, 'wrong input')
  const asked = await last(tree.id)
  expect(asked).toMatchObject({
    before: { status: 'running' },
    after: { status: 'running', cancel: 'asked', reason: 'wrong input' },
  })
  expect(changeOf(asked!)).toBe('{} -> {"cancel":"asked","reason":"wrong input"}')
  const later = await app.submit('gated', null, { runAt: '1h' })
  await app.approve(later.id)
  expect(await last(later.id)).toMatchObject({
    before: { status: 'awaiting_approval' },
    after: { status: (await app.getJob(later.id)).status },
  })
  holding.open()
  await worker.close()
})

test('names the actor that a program gives', async () => {
  const app = await apps.open({ ...WORK, actor: 'billing' })
  const id = await newJob(app)
  await app.cancel(id, 'no longer needed')
  const { entries } = await app.access.readAudit({ target: `job ${id}` })
  expect(entries).toMatchObject([
    {
      action: 'job.cancel',
      actor: 'billing',
      before: { status: 'queued' },
      after: { status: 'cancelled', reason: 'no longer needed' },
    },
    { action: 'job.submit', actor: 'billing', after: { task: 'plain' } },
  ])
})

test('writes one line for each submission, by its program, and none for attaching', async () => {
  const app = await apps.open({ ...WORK, actor: 'invoices' })
  const { id } = await app.submit('plain', { secret: 'no part of it' }, { key: 'invoice 1', runAt: '1h' })
  await app.submit('plain', { secret: 'no part of it' }, { key: 'invoice 1', runAt: '1h' })
  const tree = await app.submit('wide', null, { runAt: '1h', submittedBy: 'ann' })
  const { entries } = await app.access.readAudit({ action: 'job.submit', actor: 'invoices' })
  expect(entries.map(({ target, after }) => [target, after])).toEqual([
    [`job ${tree.id}`, { task: 'wide', by: 'ann' }],
    [`job ${id}`, { task: 'plain', key: 'invoice 1' }],
  ])
  expect((await app.getJob(id)).submittedBy).toBe('invoices')
  expect((await app.getJob(tree.id)).submittedBy).toBe('ann')
})

test('writes one line for submissions that are stored together', async () => {
  const app = await apps.open({ ...WORK, actor: 'import' })
  const later = { runAt: '1h' } as const
  const jobs = await app.submitMany('plain', [1, 2, 3], later)
  const keyed = { ...later, each: (input: unknown) => ({ key: `bulk ${input}` }) }
  const [first] = await app.submitMany('plain', [1], keyed)
  const [attached, second, third] = await app.submitMany('plain', [1, 2, 3], keyed)
  expect(attached).toMatchObject({ id: first!.id, attached: true })
  await app.submitMany('plain', [1, 2, 3], keyed)
  const { entries } = await app.access.readAudit({ action: 'job.submit', actor: 'import' })
  expect(entries.map(({ target, after }) => [target, after])).toEqual([
    [`jobs ${second!.id} to ${third!.id}`, { jobs: 2, tasks: ['plain'] }],
    [`job ${first!.id}`, { task: 'plain', key: 'bulk 1' }],
    [`jobs ${jobs[0]!.id} to ${jobs[2]!.id}`, { jobs: 3, tasks: ['plain'] }],
  ])
  const burst = await apps.open({ ...WORK, actor: 'burst' })
  await Promise.all(Array.from({ length: 50 }, () => burst.submit('plain', null, later)))
  const lines = (await app.access.readAudit({ actor: 'burst' })).entries
  const counts = lines.map(({ after }) => (after as { jobs?: number }).jobs ?? 1)
  expect(counts.reduce((sum, each) => sum + each, 0)).toBe(50)
  expect(lines.length).toBeLessThan(10)
})

test('writes the line of a submission in the transaction of its caller', async () => {
  const app = await apps.open({ ...WORK, actor: 'shop' })
  const lines = async () => (await app.access.readAudit({ actor: 'shop' })).entries
  const client = new pg.Client(database.url)
  await client.connect()
  try {
    await client.query('begin')
    await app.submit('plain', null, { transaction: client, runAt: '1h' })
    await client.query('rollback')
    expect(await lines()).toEqual([])
    await client.query('begin')
    const { id } = await app.submit('plain', null, { transaction: client, runAt: '1h' })
    await client.query('commit')
    expect(await lines()).toMatchObject([{ action: 'job.submit', target: `job ${id}` }])
  } finally {
    await client.end()
  }
})

test('names the role of the session for a submission in plain SQL', async () => {
  const app = await apps.open(WORK)
  const [row] = await database.sql<{ id: string; role: string }>(
    `select sluice.submit('plain', run_at => now() + interval '1 hour') as id, session_user::text as role`,
  )
  expect((await app.getJob(row!.id)).submittedBy).toBe(row!.role)
  const { entries } = await app.access.readAudit({ target: `job ${row!.id}` })
  expect(entries).toMatchObject([{ action: 'job.submit', actor: row!.role, after: { task: 'plain' } }])
})

test('names only the tasks of jobs that a bulk submission stored', async () => {
  const app = await apps.open(WORK)
  const { id } = await app.submit('gated', null, { key: 'there already' })
  const jobs = [
    { task: 'gated', key: 'there already', audit: { actor: 'mixed', tasks: ['gated', 'plain'] } },
    { task: 'plain', delayMs: 3_600_000 },
  ]
  const stored = await database.sql<{ id: string }>(
    `select id::text from sluice.submit_v1($1, 'commit') order by ord`,
    [JSON.stringify(jobs)],
  )
  expect(stored[0]!.id).toBe(id)
  const { entries } = await app.access.readAudit({ actor: 'mixed' })
  expect(entries).toMatchObject([{ target: `job ${stored[1]!.id}`, after: { jobs: 1, tasks: ['plain'] } }])
})

test('leaves no line for what workflows and schedules submit', async () => {
  const app = await apps.open(WORK)
  const worker = await apps.open(WORK)
  await worker.work()
  gate.open()
  await state.emptyAudit(database.sql)
  const { id } = await app.submit('wide', null)
  await app.job(id).result()
  await app.createSchedule('asked', { task: 'plain', cron: '0 3 1 1 *' })
  await app.fireSchedule('asked')
  expect(await state.countAudit(database.sql)).toEqual({
    'job.submit': 1,
    'schedule.create': 1,
    'schedule.fire': 1,
  })
})

test('keeps the reason that a program gives for its changes', async () => {
  const app = await apps.open({ ...WORK, actor: 'ops', reason: 'incident 7' })
  await app.setLane('system', { slots: 4 })
  await app.cancel(await newJob(app))
  await app.access.createKey({ name: 'why', role: 'viewer' })
  const { entries } = await app.access.readAudit({ actor: 'ops' })
  expect(entries.map(({ action, reason }) => [action, reason])).toEqual([
    ['key.create', 'incident 7'],
    ['job.cancel', 'incident 7'],
    ['job.submit', 'incident 7'],
    ['lane.change', 'incident 7'],
  ])
})

test('says what of a schedule was changed', async () => {
  const app = await apps.open(WORK)
  await app.createSchedule('hourly', { task: 'plain', cron: '0 * * * *' })
  await app.setSchedule('hourly', { priority: 7, key: 'hourly', lane: 'system' })
  const { entries } = await app.access.readAudit({ action: 'schedule.change', target: 'schedule hourly' })
  expect(entries).toMatchObject([
    {
      before: { priority: null, key: null, lane: null },
      after: { priority: 7, key: 'hourly', lane: 'system' },
    },
  ])
})

test('takes no option of a new key for the change of one', async () => {
  const app = await apps.open(WORK)
  const { id } = await app.access.createKey({ name: 'box', role: 'worker' })
  const change = { runs: { tasks: ['*'] }, takeover: true }
  await expect(app.access.changeKey(id, change)).rejects.toMatchObject({
    code: 'INVALID_ARGUMENT',
    message: expect.stringContaining('takeover'),
  })
})

test('writes no line for a change that was refused', async () => {
  const app = await apps.open(WORK)
  const id = await ended(app)
  const before = (await app.access.readAudit({ target: `job ${id}` })).entries.length
  await expect(app.cancel(id)).rejects.toThrow('is cancelled and cannot be cancelled')
  expect((await app.access.readAudit({ target: `job ${id}` })).entries).toHaveLength(before)
})

test('keeps the audit for a year by default, and lines of submissions as long as jobs', async () => {
  const app = await apps.open(WORK)
  await state.emptyAudit(database.sql)
  await state.plantAudit(database.sql, 'lane.change', 366, 1)
  await state.plantAudit(database.sql, 'lane.change', 364, 3)
  await state.plantAudit(database.sql, 'job.submit', 8, 5)
  await state.plantAudit(database.sql, 'job.submit', 6, 2)
  const { db } = app.services
  expect(await pruneAudit(db, 10)).toBe(1)
  const first = await pruneSubmissions(db, '0', 4)
  expect(first).toMatchObject({ pruned: 1, more: true })
  const second = await pruneSubmissions(db, first.cursor, 4)
  expect(second).toMatchObject({ pruned: 4, more: true })
  expect(await pruneSubmissions(db, second.cursor, 4)).toEqual({
    pruned: 0,
    more: false,
    cursor: second.cursor,
  })
  expect(await state.countAudit(database.sql)).toEqual({ 'lane.change': 3, 'job.submit': 2 })
})

test('takes the retention of the audit from the program', async () => {
  await apps.open({ ...WORK, auditRetention: '30d' })
  const app = await apps.open(WORK)
  await state.emptyAudit(database.sql)
  await state.plantAudit(database.sql, 'lane.change', 31, 1)
  expect(await pruneAudit(app.services.db, 10)).toBe(1)
})
