import pg from 'pg'
import { describe, expect, onTestFinished, test } from 'vitest'
import { model, task } from '../../src/index.ts'
import { LEARNING } from '../../src/policy/plan-input.ts'
import { registerWorker } from '../../src/store/register-worker.ts'
import { reportDevices } from '../../src/store/report-devices.ts'
import { useApps } from '../support/apps.ts'
import { useDatabase } from '../support/database.ts'
import { Gate } from '../support/gate.ts'
import { heldOf } from '../support/held.ts'
import { reportJobsEnded, restOf } from '../support/state/models.ts'
import { until } from '../support/until.ts'

const database = useDatabase()
const apps = useApps(database)
const held = (budget: string) => heldOf(database.sql, budget)

const ONE_GPU = { vram: { gpu0: '24GB' } }
const lanes = { default: { perWorker: null, poll: 200 } } as const

describe('models on a device', () => {
  /** Two models that do not fit beside each other, and what ran in which order. */
  function models(sizes: Readonly<Record<string, string>>) {
    const order: string[] = []
    const gate = new Gate()
    const tasks = Object.entries(sizes).map(([model, size]) =>
      task({
        name: `use_${model}`,
        model,
        uses: { vram: size },
        run: async (n: number) => {
          order.push(`${model}${n}`)
          if (n === 0) await gate.pass(model)
        },
      }),
    )
    return { order, gate, tasks }
  }

  test('the deepest queue goes first, in its order, and work that comes meanwhile joins it', async () => {
    const { order, gate, tasks } = models({ big: '20GB', wide: '16GB' })
    const [big, wide] = tasks
    const app = await apps.open({ tasks, budgets: ONE_GPU, lanes })
    await app.submitMany(wide!, [1, 2])
    await app.submitMany(big!, [0, 1, 2, 3])
    await app.work({ capacity: 0 })
    await gate.arrived(1)
    expect(gate.arrivals).toEqual(['big'])
    const late = await app.submit(big!, 4)
    gate.open()
    await late.result()
    await until(() => order.length === 7, 'all to run')
    expect(order).toEqual(['big0', 'big1', 'big2', 'big3', 'big4', 'wide1', 'wide2'])
    const [{ loads } = { loads: 0 }] = await database.sql<{ loads: number }>(
      `select count(*)::integer as loads from sluice.residents where model = 'wide'`,
    )
    expect(loads).toBe(1)
  })

  test('two models run side by side when they fit, and never more than fits', async () => {
    const gate = new Gate()
    const side = (model: string, size: string) =>
      task({ name: `side_${model}`, model, uses: { vram: size }, run: () => gate.pass(model) })
    const tasks = [side('m1', '10GB'), side('m2', '14GB'), side('m3', '1GB')]
    const app = await apps.open({ tasks, budgets: ONE_GPU, lanes })
    const jobs = new Map<string, string>()
    for (const each of tasks) jobs.set(each.name, (await app.submit(each, undefined)).id)
    await app.work({ capacity: 0 })
    await gate.arrived(2)
    const used = await held('vram')
    expect(used).toBeLessThanOrEqual(24 * 1024 ** 3)
    // The third has been looked at while the two run: it waits for room, and is not only late.
    const third = tasks.find(({ name }) => !gate.arrivals.includes(name.slice('side_'.length)))!
    const { wait } = await app.why(jobs.get(third.name)!)
    expect(wait).toMatchObject({ kind: 'budget', budget: { model: third.name.slice('side_'.length) } })
    expect(gate.arrivals).toHaveLength(2)
    gate.open()
    await until(async () => {
      const rows = await database.sql<{ n: number }>(
        `select count(*)::integer as n from sluice.jobs where task like 'side_%' and state = 'completed'`,
      )
      return rows[0]!.n === 3
    }, 'all three to complete')
  })

  test('is charged once for all its jobs, which add their own share', async () => {
    const gate = new Gate()
    const chat = task({
      name: 'chat',
      model: 'llm',
      uses: { vram: '10GB' },
      perJob: { vram: '4GB' },
      parallel: 8,
      run: (n: number) => gate.pass(String(n)),
    })
    const app = await apps.open({ tasks: [chat], budgets: ONE_GPU, lanes })
    await app.submitMany(chat, [1, 2, 3, 4, 5])
    await app.work({ capacity: 0 })
    await gate.arrived(3)
    expect(await held('vram')).toBe((10 + 3 * 4) * 1024 ** 3)
    expect(gate.arrivals).toEqual(['1', '2', '3'])
    gate.open()
    await until(async () => (await held('vram')) === 10 * 1024 ** 3, 'the jobs to end; the model stays')
  })

  test('goes when its tasks no longer draw from budgets', async () => {
    const unloads: string[] = []
    const named = (name: string) => model({ name, load: () => name, unload: () => void unloads.push(name) })
    const [left, kept] = [named('left'), named('kept')]
    const former = task({ name: 'former_user', model: left, uses: { vram: '4GB' }, run: () => null })
    const other = task({ name: 'other_user', model: kept, uses: { vram: '4GB' }, run: () => null })
    const app = await apps.open({ tasks: [former, other], budgets: ONE_GPU, lanes })
    await app.work({ capacity: 0 })
    for (const each of [former, other]) await (await app.submit(each, undefined)).result()
    expect(await held('vram')).toBe(8 * 1024 ** 3)
    await apps.open({ tasks: [task({ name: 'former_user', model: 'left', run: () => null })], lanes })
    await until(async () => (await held('vram')) === 4 * 1024 ** 3, 'its room to be free')
    expect(unloads).toEqual(['left'])
    await apps.open({ tasks: [task({ name: 'other_user', model: 'kept', run: () => null })], lanes })
    await until(async () => (await held('vram')) === 0, 'that of the last one, too')
    expect(unloads).toEqual(['left', 'kept'])
    await (await app.submit(former, undefined)).result()
  })

  test('gets no more jobs on a device that was made too small for it, and goes when it is idle', async () => {
    const gate = new Gate()
    const large = task({ name: 'too_large', model: 'giant', uses: { vram: '20GB' }, run: () => gate.pass() })
    const app = await apps.open({ tasks: [large], budgets: ONE_GPU, lanes })
    await app.work({ capacity: 0 })
    await app.submit(large, undefined)
    await gate.arrived(1)
    const next = await app.submit(large, undefined)
    await expect(app.setBudget('vram', { limits: { gpu0: 10 } })).rejects.toThrow(
      'limits.gpu0: 10 must be a size with a unit, such as 10GB: vram is counted in bytes',
    )
    await expect(app.setBudget('vram', { limits: { gpu0: '48GB' } })).rejects.toThrow(
      /^limits.gpu0: 48GB is more than the 24GB that \S+\/gpu0 has: use at most 24GB, or null for no limit$/,
    )
    await app.setBudget('vram', { limits: { gpu0: '10GB' } })
    expect(await held('vram')).toBe(20 * 1024 ** 3)
    gate.open()
    await until(async () => (await held('vram')) === 0, 'it to be unloaded')
    expect((await app.why(next.id)).reason).toMatch(
      /^its model giant needs 20GB of vram on one device; an operator's limit holds \S+, the largest that a worker offers, at 10GB$/,
    )
    await app.resetBudget('vram')
    await next.result()
    // Also where nothing waits for it.
    await app.setBudget('vram', { limits: { gpu0: '10GB' } })
    await until(async () => (await held('vram')) === 0, 'it to be unloaded again')
    await app.resetBudget('vram')
  })

  test('leaves its room to others at once when its worker ends without having unloaded it', async () => {
    const stuck = model({ name: 'stuck', load: () => 1, unload: () => new Promise<void>(() => {}) })
    const stays = task({ name: 'stays', model: stuck, uses: { vram: '20GB' }, run: () => null })
    const comes = task({ name: 'comes', model: 'next', uses: { vram: '20GB' }, run: () => 'came' })
    // They hardly look by themselves.
    const quiet = { default: { perWorker: null, poll: 30_000 } } as const
    const models = { stuck: { pinned: true } }
    const one = await apps.open({
      tasks: [stays],
      budgets: ONE_GPU,
      models,
      shutdownGrace: 100,
      lanes: quiet,
    })
    await one.work({ capacity: 0 })
    await (await one.submit(stays, undefined)).result()
    const other = await apps.open({ tasks: [comes], lanes: quiet })
    await other.work({ capacity: 0 })
    const job = await other.submit(comes, undefined)
    await until(
      async () => (await other.why(job.id)).wait.budget?.heldBy.includes('stuck'),
      'it to wait for the room',
    )
    await one.stopWorking()
    await until(async () => (await other.getJob(job.id)).state === 'completed', 'it to hear of the room')
  })

  test('a job on two devices takes both or waits', async () => {
    const gate = new Gate()
    const wide = task({
      name: 'tensor',
      uses: { vram: { devices: 2, each: '20GB' } },
      run: (_: number) => gate.pass(),
    })
    const app = await apps.open({
      tasks: [wide],
      budgets: { vram: { gpu0: '24GB', gpu1: '24GB', gpu2: '24GB' } },
      lanes,
    })
    await app.submitMany(wide, [1, 2])
    await app.work({ capacity: 0 })
    await gate.arrived(1)
    const rows = await database.sql<{ device: string; amount: number }>(
      `select device, amount from sluice.reservations r join sluice.jobs j on j.id = r.job_id
        where j.task = 'tensor' and j.state = 'running' order by device`,
    )
    expect(rows.length).toBe(2)
    expect(rows.every(({ amount }) => Number(amount) === 20 * 1024 ** 3)).toBe(true)
    gate.open()
    await until(async () => (await held('vram')) === 0, 'both to run, one after the other')
  })

  test('a job that throws returns what it drew, once', async () => {
    let tries = 0
    const breaks = task({
      name: 'breaks',
      uses: { vram: '20GB' },
      retry: { attempts: 3, delay: 1 },
      run: () => {
        tries++
        throw new Error('no')
      },
    })
    const app = await apps.open({ tasks: [breaks], budgets: ONE_GPU, lanes })
    await app.work({ capacity: 0 })
    const jobs = await app.submitMany(breaks, [undefined, undefined])
    for (const job of jobs) await expect(job.result()).rejects.toThrow('no')
    expect(tries).toBe(6)
    expect(await held('vram')).toBe(0)
  })
})

test('tasks whose model could not be charged rightly are refused at the start, and nothing of them is stored', async () => {
  const common = { model: 'shared', run: () => null }
  const one = task({ ...common, name: 'one', uses: { vram: '9GB', seats: '${{ input.n }}' } })
  const budgets = { vram: { gpu0: '24GB' }, units: { gpu0: 8 }, seats: 4 }
  const app = await apps.open({ tasks: [one], budgets, lanes })
  await app.work({ capacity: 0 })
  const refused = (uses: object, more: object = {}) => {
    const two = task({ ...common, name: 'two', uses: uses as { vram: string }, ...more })
    return expect(apps.open({ tasks: [two], lanes })).rejects
  }
  const differ = (what: string) => ({
    code: 'INVALID_ARGUMENT',
    message: `tasks two and one share model shared, which is loaded once for both, but differ in what it uses of ${what}; say the same in both, or give one of them another model`,
  })
  await refused({ vram: '10GB' }).toMatchObject(differ('vram: 10GB and 9GB'))
  await refused({ vram: '9GB', units: 2 }).toMatchObject(differ('units: 2 and nothing'))
  await refused({ vram: { devices: 2, each: '9GB' } }).toMatchObject(
    differ('vram: 9GB on each of 2 devices and 9GB'),
  )
  await refused({ seats: 1 }).toMatchObject(differ('vram: nothing and 9GB'))
  await refused({ vram: '${{ input.gb }}' }).toMatchObject({
    code: 'INVALID_ARGUMENT',
    message:
      'task two: uses.vram is an expression, but model shared is loaded once for all its jobs; give what the model takes, and what depends on the input as perJob',
  })
  await refused({ vram: '9GB' }, { perJob: { units: 1 } }).toMatchObject({
    code: 'INVALID_ARGUMENT',
    message:
      'task two: perJob.units is of a budget that uses does not name, so model shared lies on none of its devices; add uses.units, 0 if the model itself takes nothing',
  })
  expect(await database.sql(`select 1 from sluice.tasks where name = 'two'`)).toEqual([])
  // A budget that gets devices would make the model's memory of what depends on the input.
  await expect(apps.open({ tasks: [], budgets: { seats: { gpu0: 4 } }, lanes })).rejects.toMatchObject({
    message: expect.stringMatching(/^task one: uses.seats is an expression, but model shared/),
  })
  // What differs from job to job goes into perJob; shared budgets are the jobs' own anyway.
  await apps.open({
    tasks: [
      task({ ...common, name: 'two', uses: { vram: '9GB', seats: 2 }, perJob: { vram: '${{ input.gb }}' } }),
    ],
    lanes,
  })
  // Of what nobody runs any more nothing is to be said.
  await app.close()
  await apps.open({ tasks: [task({ ...common, name: 'one', uses: { vram: '10GB' } })], lanes })
})

test('the times of a model are learned at the pace that the planner says', async () => {
  const load = (loadMs: number, learning: number) =>
    database.sql(`select sluice.record_models_v1(0, now(), $1)`, [
      JSON.stringify({ loaded: [{ model: 'paced', devices: [], loadMs }], learning }),
    ])
  await load(100, LEARNING)
  await load(200, LEARNING)
  await load(230, 0.5)
  const [learned] = await database.sql<{ ms: number }>(
    `select load_ms as ms from sluice.models where name = 'paced'`,
  )
  expect(learned!.ms).toBeCloseTo((100 + LEARNING * 100 + 230) / 2, 6)
})

test('learns how long a model rests between its jobs', async () => {
  const ended = (at: number, jobs: number, totalMs: number) =>
    reportJobsEnded(database.sql, 'resting', { at, jobs, totalMs, learning: LEARNING })
  await ended(10, 1, 4000)
  expect(await restOf(database.sql, 'resting')).toBeNull()
  await ended(74, 1, 4000)
  expect(await restOf(database.sql, 'resting')).toBeCloseTo(60_000, 3)
  // Four jobs at once took longer in all than the time that passed: it did not rest.
  await ended(75, 4, 4000)
  expect(await restOf(database.sql, 'resting')).toBeCloseTo(60_000 * (1 - LEARNING), 3)
})

test('a machine without GPUs runs what reads them without limits', async () => {
  const gate = new Gate()
  const large = (model: string) =>
    task({ name: `cpu_${model}`, model, uses: { gpus: '500GB' }, run: () => gate.pass(model) })
  const tasks = [large('x'), large('y'), large('z')]
  const app = await apps.open({ tasks, budgets: { gpus: { devices: 'auto' } }, lanes })
  await app.work({ capacity: 0 })
  for (const each of tasks) await app.submit(each, undefined)
  await gate.arrived(3)
  gate.open()
})

test('why names the device, what holds it, and its model', async () => {
  const gate = new Gate()
  const holds = task({ name: 'holds', model: 'first', uses: { vram: '20GB' }, run: () => gate.pass() })
  const waits = task({ name: 'waits', model: 'second', uses: { vram: '20GB' }, run: () => null })
  const app = await apps.open({ tasks: [holds, waits], budgets: ONE_GPU, lanes })
  await app.work({ capacity: 0 })
  await app.submit(holds, undefined)
  await gate.arrived()
  const job = await app.submit(waits, undefined)
  const { wait, reason, words } = await app.why(job.id)
  expect(wait.kind).toBe('budget')
  expect(wait.budget).toMatchObject({
    model: 'second',
    heldBy: ['first'],
    device: expect.stringMatching(/\/gpu0$/),
  })
  expect(reason).toContain('its model second')
  expect(reason).toContain('first')
  expect(words[0]).toContain('gpu0')
  gate.open()
  await job.result()
})

test('a GPU that stops telling its memory keeps its size, a lost one is found again by a newer reading only, and tasks are judged when that changes', async () => {
  const judged = task({ name: 'judged', uses: { vram: 1 }, run: () => null })
  const app = await apps.open({ tasks: [judged], budgets: { vram: { devices: 'auto' } } })
  const { db } = app.services
  const worker = await registerWorker(db, {
    ...{ name: 'reader', host: 'h', pid: 1, version: '0', capacity: 1, cores: 1, tasks: [], labels: {} },
  })
  const read = async (reading: { total: number | null; ageMs: number | null; lost?: boolean }) => {
    const { total, ageMs, lost = false } = reading
    const free = ageMs === null ? null : total
    const used = free === null ? null : 0
    const known = { budget: 'vram', key: 'GPU-a', name: 'A100' }
    // Whoever judges the tasks takes it away.
    await database.sql(`update sluice.tasks set refusal = '{"text": "none"}' where name = 'judged'`)
    await reportDevices(db, worker, [{ ...known, total, used, free, ageMs, lost }])
    const [device] = await database.sql<{ total: number; lost: boolean; judged: boolean }>(
      `select total, lost_at is not null as lost, (select refusal is null from sluice.tasks where name = 'judged') as judged
         from sluice.devices where key = 'GPU-a'`,
    )
    return device
  }
  expect(await read({ total: 24, ageMs: 0 })).toEqual({ total: 24, lost: false, judged: true })
  expect(await read({ total: 24, ageMs: 0 })).toEqual({ total: 24, lost: false, judged: false })
  expect(await read({ total: null, ageMs: 0 })).toEqual({ total: 24, lost: false, judged: false })
  expect(await read({ total: 24, ageMs: 0, lost: true })).toEqual({ total: 24, lost: true, judged: true })
  // Of a worker whose driver hangs, and of one that has none.
  expect(await read({ total: 24, ageMs: 60_000 })).toEqual({ total: 24, lost: true, judged: false })
  expect(await read({ total: 24, ageMs: null })).toEqual({ total: 24, lost: true, judged: false })
  expect(await read({ total: 24, ageMs: 0 })).toEqual({ total: 24, lost: false, judged: true })
  await database.sql('update sluice.workers set ended_at = now() where id = $1', [worker])
})

test('a budget is deleted while a report brings a new device of it: one waits for the other, and nothing is left', async () => {
  const app = await apps.open({ budgets: { brief: { devices: 'auto' } } })
  const { db } = app.services
  const worker = await registerWorker(db, {
    ...{ name: 'adder', host: 'h', pid: 1, version: '0', capacity: 1, cores: 1, tasks: [], labels: {} },
  })
  const report = (...keys: string[]) => {
    const seen = { budget: 'brief', name: 'A100', total: 24, used: 0, free: 24, ageMs: 0, lost: false }
    return reportDevices(
      db,
      worker,
      keys.map((key) => ({ ...seen, key })),
    )
  }
  await report('GPU-2')
  const holder = new pg.Client({ connectionString: database.directUrl })
  await holder.connect()
  onTestFinished(() => holder.end())
  await holder.query('begin')
  await holder.query(`select 1 from sluice.devices where key = 'GPU-2' for no key update`)
  const waiting = (count: number) =>
    until(async () => {
      const rows = await database.admin(
        `select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
      )
      return rows.length === count
    }, `${count} to wait`)
  const deleted = app.removeBudget('brief')
  await waiting(1)
  // It comes to the new one first, and then to the one that the other waits for.
  const reported = report('GPU-1', 'GPU-2')
  await waiting(2)
  await holder.query('commit')
  await deleted
  expect((await reported).map(({ name }) => name)).not.toContain('brief')
  for (const table of ['devices', 'worker_devices'])
    expect(await database.sql(`select 1 from sluice.${table} where budget = 'brief'`)).toEqual([])
  await database.sql('update sluice.workers set ended_at = now() where id = $1', [worker])
})
