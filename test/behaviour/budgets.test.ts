import pg from 'pg'
import { describe, expect, onTestFinished, test } from 'vitest'
import { type SluiceOptions, task } from '../../src/index.ts'
import { BUDGET_FIELDS } from '../../src/model/fields/budget.ts'
import { DEFAULT_RULES } from '../../src/policy/plan-input.ts'
import { useApps } from '../support/apps.ts'
import { useDatabase } from '../support/database.ts'
import { Gate } from '../support/gate.ts'
import { heldOf } from '../support/held.ts'
import { waitingSessions } from '../support/state/lanes.ts'
import { until } from '../support/until.ts'

const database = useDatabase()
const apps = useApps(database)
const held = (budget: string) => heldOf(database.sql, budget)

const lanes = { default: { perWorker: null, poll: 200 } } as const

function configOf(config: unknown): NonNullable<SluiceOptions['config']> {
  return { file: undefined, folder: '.', config, tasks: [], workflows: [], locate: () => undefined } as never
}

describe('a shared budget', () => {
  test('bounds what runs at once over all workers, and gives everything back', async () => {
    let running = 0
    let peak = 0
    const licensed = task({
      name: 'licensed',
      uses: { licences: 1 },
      run: async (_: number) => {
        running++
        peak = Math.max(peak, running)
        await new Promise((resolve) => setImmediate(resolve))
        running--
      },
    })
    const options = { tasks: [licensed], budgets: { licences: 3 }, lanes }
    const one = await apps.open(options)
    const other = await apps.open(options)
    const jobs = await one.submitMany(
      licensed,
      Array.from({ length: 60 }, (_, n) => n),
    )
    await Promise.all([one.work({ capacity: 0 }), other.work({ capacity: 0 })])
    await Promise.all(jobs.map((job) => job.result()))
    expect(peak).toBeLessThanOrEqual(3)
    expect(peak).toBeGreaterThanOrEqual(2)
    expect(await held('licences')).toBe(0)
  })

  test('takes several budgets together or none, and leaves others alone', async () => {
    const gate = new Gate()
    const both = task({ name: 'both', uses: { a: 1, b: 2 }, run: (n: number) => gate.pass(String(n)) })
    const free = task({ name: 'free', run: () => 'ran' })
    const app = await apps.open({ tasks: [both, free], budgets: { a: 10, b: 3 }, lanes })
    await app.submitMany(both, [1, 2, 3])
    await app.work({ capacity: 0 })
    await gate.arrived(1)
    // What uses no budget goes by at full speed while the others wait.
    expect(await (await app.submit(free, undefined)).result()).toBe('ran')
    expect(gate.arrivals).toEqual(['1'])
    expect(await held('a')).toBe(1)
    expect(await held('b')).toBe(2)
    gate.open()
    await until(async () => (await held('b')) === 0, 'all to end')
  })

  test('may be changed while jobs run: less stops nothing, more starts what waits', async () => {
    const gate = new Gate()
    const seats = task({ name: 'seats', uses: { seats: 1 }, run: (n: number) => gate.pass(String(n)) })
    const app = await apps.open({ tasks: [seats], budgets: { seats: 2 }, lanes })
    await app.submitMany(seats, [1, 2, 3, 4])
    await app.work({ capacity: 0 })
    await gate.arrived(2)
    await app.setBudget('seats', { capacity: 1 })
    expect(await held('seats')).toBe(2)
    await app.setBudget('seats', { capacity: 3 })
    await gate.arrived(3)
    expect(gate.arrivals).toEqual(['1', '2', '3'])
    // An operator's change stays, whatever programs say.
    await apps.open({ tasks: [seats], budgets: { seats: 50 }, lanes })
    expect(await held('seats')).toBe(3)
    gate.open()
    await app.resetBudget('seats')
    await until(async () => (await held('seats')) === 0, 'all to end')
  })

  test('counts fractions exactly', async () => {
    const gate = new Gate()
    const tenth = task({ name: 'tenth', uses: { whole: 0.1 }, run: (n: number) => gate.pass(String(n)) })
    const app = await apps.open({ tasks: [tenth], budgets: { whole: 1 }, lanes })
    await app.submitMany(
      tenth,
      Array.from({ length: 12 }, (_, n) => n),
    )
    await app.work({ capacity: 0 })
    await gate.arrived(10)
    expect(await (async () => gate.arrivals.length)()).toBe(10)
    gate.open()
    await until(async () => (await held('whole')) === 0, 'all to end')
  })
})

describe('a budget that an operator creates', () => {
  test('is created once by two operators at the same time', async () => {
    const app = await apps.open({})
    const client = new pg.Client(database.url)
    await client.connect()
    onTestFinished(() => client.end())
    // An open transaction holds the name, so that both wait for it.
    await client.query(`begin; insert into sluice.budgets (name, kind) values ('twice', 'shared')`)
    const both = Promise.allSettled([1, 2].map((capacity) => app.createBudget('twice', { capacity })))
    await until(async () => (await waitingSessions(database.sql)) > 1, 'both to wait for the name')
    await client.query('rollback')
    const outcomes = await both
    expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
    expect(outcomes.find(({ status }) => status === 'rejected')).toMatchObject({
      reason: { code: 'BUDGET_EXISTS' },
    })
    const winner = outcomes.findIndex(({ status }) => status === 'fulfilled') + 1
    const { budgets } = await app.budgets()
    expect(budgets.find(({ name }) => name === 'twice')).toMatchObject({ capacity: winner })
  })

  test('is not reset while no file or program declares it', async () => {
    const app = await apps.open({})
    await app.createBudget('made', { capacity: 3, quantum: 2, maxWait: '1m' })
    await app.setBudget('made', { safety: 1 })
    await expect(app.resetBudget('made')).rejects.toMatchObject({
      code: 'INVALID_ARGUMENT',
      message: expect.stringContaining('Delete it with: sluice budgets delete made'),
    })
    const made = async () => (await app.budgets()).budgets.find(({ name }) => name === 'made')
    const operatorSet = ['capacity', 'maxWaitMs', 'quantum', 'safety']
    expect(await made()).toMatchObject({ capacity: 3, quantum: 2, safety: 1, maxWaitMs: 60_000, operatorSet })
    await apps.open({ budgets: { made: 5 } })
    expect(await made()).toMatchObject({ capacity: 3, quantum: 2 })
    const { quantum, maxWait } = BUDGET_FIELDS
    expect(await app.resetBudget('made')).toMatchObject({
      capacity: 5,
      quantum: quantum.default,
      maxWaitMs: maxWait.default,
      safety: 0,
      operatorSet: [],
    })
  })

  test('has no limits of devices', async () => {
    const app = await apps.open({})
    const given = { capacity: 3, limits: { gpu0: 1 } }
    await expect(app.createBudget('limited', given)).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
    expect((await app.budgets()).budgets.map(({ name }) => name)).not.toContain('limited')
  })
})

describe('a task whose uses change while a worker does not know yet', () => {
  /** As another program would, but so that the worker hears of it with its next heartbeat only. */
  const change = (name: string, uses: string | null, budgeted: boolean) =>
    database.sql(
      `with t as (update sluice.tasks set uses = $2::jsonb, updated_at = clock_timestamp() where name = $1)
       update sluice.classes set budgeted = $3 where task = $1`,
      [name, uses, budgeted],
    )

  test('does not run without drawing', async () => {
    const gate = new Gate()
    const plain = task({ name: 'plain', run: (n: number) => gate.pass(String(n)) })
    const app = await apps.open({ tasks: [plain], budgets: { passes: 1 }, lanes })
    await app.work({ capacity: 0 })
    await app.submit(plain, 0)
    await gate.arrived(1)
    await change('plain', '{"passes": {"devices": 1, "each": 1}}', true)
    await app.submitMany(plain, [1, 2, 3])
    await gate.arrived(2)
    expect(await held('passes')).toBe(1)
    expect(gate.arrivals).toEqual(['0', '1'])
    gate.open()
    await until(
      async () => (await app.listJobs({ status: ['queued', 'running'] })).length === 0,
      'all to run',
    )
  })

  test('and no longer draws takes nothing from those that do', async () => {
    const gate = new Gate()
    const pass = (n: number) => gate.pass(String(n))
    const former = task({ name: 'former', uses: { doors: 1 }, run: pass })
    const still = task({ name: 'still', uses: { doors: 1 }, run: pass })
    const app = await apps.open({ tasks: [former, still], budgets: { doors: 2 }, lanes })
    // Still claimed by plan, in one cycle with the others.
    await change('former', null, true)
    await app.submit(former, 0)
    await app.submitMany(still, [1, 2, 3])
    await app.work({ capacity: 0 })
    await gate.arrived(3)
    expect([...gate.arrivals].sort()).toEqual(['0', '1', '2'])
    expect(await held('doors')).toBe(2)
    gate.open()
    await until(async () => (await held('doors')) === 0, 'all to end')
  })
})

test('uses in the file stand over those in the code, key by key', async () => {
  const mixed = task({ name: 'mixed', uses: { a: 1, b: 2 }, model: 'of-the-code', run: () => null })
  const file = {
    tasks: { mixed: { uses: { b: { devices: 1, each: 3 }, c: { devices: 1, each: 4 } }, parallel: 2 } },
  }
  await apps.open({ tasks: [mixed], budgets: { a: 9, b: 9, c: 9 }, lanes, config: configOf(file) })
  const [row] = await database.sql<{ uses: unknown; parallel: number; model: string }>(
    `select t.uses, t.parallel, c.model from sluice.tasks t join sluice.classes c on c.id = t.class_id where t.name = 'mixed'`,
  )
  const one = (each: number) => ({ devices: 1, each })
  expect(row).toEqual({ uses: { a: one(1), b: one(3), c: one(4) }, parallel: 2, model: 'of-the-code' })
})

test('policy, settings and database agree on the rules of a budget that says nothing of them', async () => {
  expect({ quantum: BUDGET_FIELDS.quantum.default, maxWaitMs: BUDGET_FIELDS.maxWait.default }).toEqual(
    DEFAULT_RULES,
  )
  const [made] = await database.sql<{ quantum: number; wait: string }>(
    `insert into sluice.budgets (name, kind) values ('silent', 'shared') returning quantum, max_wait_ms as wait`,
  )
  expect({ quantum: made!.quantum, maxWaitMs: Number(made!.wait) }).toEqual(DEFAULT_RULES)
})

test('warns at the start about a task with a model and no uses', async () => {
  const loose = task({ name: 'loose', model: 'llm', run: () => null })
  const none = task({ name: 'none', uses: { zero: 1 }, run: () => null })
  await apps.open({ tasks: [loose, none], budgets: { zero: 0 }, lanes })
  const warnings = apps.logged.filter(({ level }) => level === 'warn')
  expect(warnings.map(({ fields, message }) => `${fields.task}: ${message}`)).toEqual([
    expect.stringMatching(/^loose: model llm has no uses, so its memory is not counted/),
    expect.stringMatching(/^none: uses budget zero, which has an amount of 0, so none of its jobs can start/),
  ])
})

test('amounts that nobody could count are refused at the start, with the place', async () => {
  const refused = (options: object) =>
    expect(apps.open({ tasks: [task({ name: 'odd', run: () => null, ...options })], lanes })).rejects
  await refused({ perJob: { vram: '1GB' } }).toMatchObject({
    code: 'INVALID_ARGUMENT',
    message:
      'task "odd": perJob requires uses, because perJob alone is not counted; add uses, with 0 for budgets that only perJob uses',
  })
  await refused({ uses: { vram: '${{ input.pages * }}' } }).toMatchObject({
    code: 'INVALID_ARGUMENT',
    message: expect.stringMatching(/^task "odd": uses\.vram: .+/),
  })
  await refused({ uses: { vram: 0 }, perJob: { vram: '${{ steps.a.result }}' } }).toMatchObject({
    code: 'INVALID_ARGUMENT',
    message: 'task "odd": perJob.vram: reads steps.a.result; only input is known here',
  })
  expect(await database.sql(`select 1 from sluice.tasks where name = 'odd'`)).toEqual([])
  // What the file gives counts: one of the two may come from there.
  const file = { tasks: { odd: { uses: { reams: { devices: 1, each: 0 } } } } }
  const perJob = { reams: 1 }
  await apps.open({
    tasks: [task({ name: 'odd', perJob, run: () => null })],
    budgets: { reams: 9 },
    lanes,
    config: configOf(file),
  })
})

test('declared devices belong to the machine that a worker names: containers of one machine share them', async () => {
  const { SLUICE_HOST } = process.env
  onTestFinished(() => {
    if (SLUICE_HOST === undefined) delete process.env.SLUICE_HOST
    else process.env.SLUICE_HOST = SLUICE_HOST
  })
  const writes = task({ name: 'writes', uses: { scratch: '1GB' }, run: () => null })
  const options = { tasks: [writes], budgets: { scratch: { disk0: '10GB' } }, lanes }
  const workOn = async (host: string) => {
    process.env.SLUICE_HOST = host
    await (await apps.open(options)).work()
  }
  const keys = async (count: number) =>
    until(async () => {
      const offers = await database.sql<{ device: string }>(
        `select device from sluice.worker_devices where budget = 'scratch' order by device`,
      )
      return offers.length === count && offers.map(({ device }) => device)
    }, `${count} offers`)
  await workOn('box')
  await workOn('box')
  expect(await keys(2)).toEqual(['box/disk0', 'box/disk0'])
  await workOn('container-7')
  expect(await keys(3)).toEqual(['box/disk0', 'box/disk0', 'container-7/disk0'])
})

describe('what is left behind', () => {
  test('a budget of tasks that a pool runs is not deleted while that may start workers again', async () => {
    const glued = task({ name: 'glued', uses: { paste: 1 }, run: () => null })
    const fleet = { pools: { gluers: {} } }
    const app = await apps.open({ tasks: [glued], budgets: { paste: 1 }, fleet, lanes })
    await app.work({ inPool: 'gluers' })
    await app.stopWorking()
    await expect(app.removeBudget('paste')).rejects.toMatchObject({
      code: 'BUDGET_IN_USE',
      message:
        'budget paste cannot be deleted: used by glued, for which pool gluers may start workers. Remove it from their uses and let their jobs end first; max: 0 keeps pool gluers from starting any',
      details: { name: 'paste', tasks: ['glued'], pools: ['gluers'], jobs: 0 },
    })
    await app.setPool('gluers', { max: 0 })
    await app.removeBudget('paste')
    // Who submits all the same is told what is missing.
    await app.work()
    const job = await app.submit(glued, undefined)
    expect((await app.why(job.id)).reason).toBe(
      'task glued uses budget paste, which does not exist: it was never declared, or it was deleted',
    )
    await app.cancel(job.id)
  })

  test('a budget can be deleted once nobody uses it, and with it all that was noted of its devices', async () => {
    const gate = new Gate()
    const uses = { glue: '1GB' }
    const sticks = task({ name: 'sticks', model: 'stick', uses, run: () => gate.pass() })
    const app = await apps.open({ tasks: [sticks], budgets: { glue: { gpu0: '2GB' } }, lanes })
    const used = {
      code: 'BUDGET_IN_USE',
      message:
        'budget glue cannot be deleted: used by sticks. Remove it from their uses and let their jobs end first',
      details: { name: 'glue', tasks: ['sticks'] },
    }
    const job = await app.submit(sticks, undefined)
    await expect(app.removeBudget('glue')).rejects.toMatchObject(used)
    await app.work({ capacity: 0 })
    await gate.arrived()
    await expect(app.removeBudget('glue')).rejects.toMatchObject({
      ...used,
      details: { ...used.details, jobs: 1 },
    })
    // Also when the task has forgotten it meanwhile: its running jobs have not.
    const plain = await apps.open({ tasks: [task({ name: 'sticks', run: () => null })], lanes })
    await expect(plain.removeBudget('glue')).rejects.toMatchObject({
      message: expect.stringContaining('1 running job uses it'),
    })
    gate.open()
    await job.result()
    await app.stopWorking()
    await plain.removeBudget('glue')
    const tables = ['devices', 'worker_devices', 'residents', 'reservations']
    for (const table of tables)
      expect(await database.sql(`select 1 from sluice.${table} where budget = 'glue'`)).toEqual([])
    await expect(plain.removeBudget('glue')).rejects.toMatchObject({ code: 'BUDGET_NOT_FOUND' })
    await expect(plain.removeBudget('no name')).rejects.toMatchObject({ code: 'BUDGET_NOT_FOUND' })
  })

  test('the upkeep removes what ended attempts and workers left, and devices that nobody offers for a day', async () => {
    const app = await apps.open({ budgets: { old: { gpu0: 4 } }, lanes })
    const [ended] = await database.sql<{ id: string }>(
      `insert into sluice.workers (name, host, pid, version, capacity, cores, tasks, labels, pooled, ended_at)
       values ('gone', 'box', 1, '0', 1, 1, '{}', '{}', '{}', now()) returning id`,
    )
    await database.sql(
      `insert into sluice.devices (budget, key, host, name, total, seen_at, most)
       select 'old', 'box/' || n.name, 'box', n.name, 4, now() - n.age, n.most
         from (values ('fresh', interval '1 hour', null), ('stale', interval '2 days', null), ('limited', interval '2 days', 1)) n(name, age, most)`,
    )
    await database.sql(`insert into sluice.worker_devices select $1, 'old', 'box/stale'`, [ended!.id])
    await database.sql(
      `insert into sluice.residents (worker_id, model, device, budget, amount, devices) values ($1, 'm', 'box/stale', 'old', 1, '{box/stale}')`,
      [ended!.id],
    )
    await database.sql(`insert into sluice.reservations values ($1, 0, 1, 'old', 'box/stale', 1)`, [
      ended!.id,
    ])
    await database.sql('select sluice.reconcile_budgets_v1()')
    for (const table of ['worker_devices', 'residents', 'reservations'])
      expect(await database.sql(`select 1 from sluice.${table} where budget = 'old'`)).toEqual([])
    const keys = await database.sql(`select key from sluice.devices where budget = 'old' order by key`)
    expect(keys).toEqual([{ key: 'box/fresh' }, { key: 'box/limited' }])
    await app.removeBudget('old')
  })

  test('a budget that becomes one without devices, or gets some, is counted in its new way at once', async () => {
    const gate = new Gate()
    const paints = task({ name: 'paints', uses: { paint: 1 }, run: (n: number) => gate.pass(String(n)) })
    const one = await apps.open({ tasks: [paints], budgets: { paint: 1 }, lanes })
    await one.work({ capacity: 0 })
    await one.submitMany(paints, [1, 2, 3, 4])
    await gate.arrived(1)
    const kinds = () => database.sql(`select key from sluice.devices where budget = 'paint' order by key`)
    expect(await kinds()).toEqual([{ key: '' }])
    // What runs draws from what is no more; two devices come instead, of one each.
    const two = await apps.open({ tasks: [paints], budgets: { paint: { can0: 1, can1: 1 } }, lanes })
    await two.work({ capacity: 0 })
    await gate.arrived(3)
    expect((await kinds()).map(({ key }) => String(key).split('/').at(-1))).toEqual(['can0', 'can1'])
    await apps.open({ tasks: [paints], budgets: { paint: 5 }, lanes })
    await gate.arrived(4)
    // The first one, which drew from it before, counts again.
    expect((await one.budgets()).budgets.find(({ name }) => name === 'paint')).toMatchObject({
      kind: 'shared',
      devices: expect.arrayContaining([expect.objectContaining({ key: '', held: 2, capacity: 5 })]),
    })
    gate.open()
    await until(async () => (await held('paint')) === 0, 'all to end')
  })

  test('two budgets of one device are each counted', async () => {
    const gate = new Gate()
    const both = task({
      name: 'both_of_it',
      uses: { ram: 2, units: 3 },
      run: (n: number) => gate.pass(String(n)),
    })
    const single = task({ name: 'one_of_it', uses: { ram: 2 }, run: (n: number) => gate.pass(String(n)) })
    const budgets = { ram: { card: 8 }, units: { card: 7 } }
    const app = await apps.open({ tasks: [both, single], budgets, lanes })
    await app.work({ capacity: 0 })
    await app.submitMany(both, [1, 2, 3])
    await gate.arrived(2)
    expect([await held('ram'), await held('units')]).toEqual([4, 6])
    await app.submitMany(single, [4, 5, 6])
    await gate.arrived(4)
    expect([await held('ram'), await held('units')]).toEqual([8, 6])
    expect([...gate.arrivals].sort()).toEqual(['1', '2', '4', '5'])
    gate.open()
    await until(async () => (await held('ram')) === 0, 'all to end')
  })
})
