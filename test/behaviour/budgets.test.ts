import { describe, expect, test } from 'vitest'
import { hasCode, model, outOfMemory, type SluiceOptions, task } from '../../src/index.ts'
import { DEFAULT_MAX_WAIT_MS, DEFAULT_QUANTUM } from '../../src/model/budget.ts'
import { DEFAULT_RULES, LEARNING } from '../../src/policy/picture.ts'
import { registerWorker } from '../../src/store/register-worker.ts'
import { reportDevices } from '../../src/store/report-devices.ts'
import { useApps } from '../support/apps.ts'
import { useDatabase } from '../support/database.ts'
import { Gate } from '../support/gate.ts'
import { until } from '../support/until.ts'

const database = useDatabase()
const apps = useApps(database)

const ONE_GPU = { vram: { gpu0: '24GB' } }
const lanes = { default: { perWorker: null, poll: 200 } } as const

function configOf(config: unknown): NonNullable<SluiceOptions['config']> {
  return { file: undefined, folder: '.', config, tasks: [], workflows: [], locate: () => undefined } as never
}

/** What counts against a budget just now. */
async function held(budget: string): Promise<number> {
  const [row] = await database.sql<{ held: number }>(
    `select coalesce((select sum(r.amount) from sluice.reservations r join sluice.jobs j on j.id = r.job_id
                       where r.budget = $1 and j.state = 'running' and j.attempt = r.attempt), 0)
          + coalesce((select sum(r.amount) from sluice.residents r join sluice.workers w on w.id = r.worker_id
                       where r.budget = $1 and w.ended_at is null), 0) as held`,
    [budget],
  )
  return Number(row!.held)
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
    for (const each of tasks) await app.submit(each, undefined)
    await app.work({ capacity: 0 })
    await gate.arrived(2)
    const used = await held('vram')
    expect(used).toBeLessThanOrEqual(24 * 1024 ** 3)
    expect(gate.arrivals.length).toBeGreaterThanOrEqual(2)
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
      'gpu0: 10 must be a size with a unit, such as 10GB: vram is counted in bytes',
    )
    await app.setBudget('vram', { limits: { gpu0: '10GB' } })
    expect(await held('vram')).toBe(20 * 1024 ** 3)
    gate.open()
    await until(async () => (await held('vram')) === 0, 'it to be unloaded')
    expect((await app.why(next.id)).reason).toContain('the largest that a worker offers has 10GB')
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

describe('what a job needs', () => {
  test('may depend on its input, and what no device has is refused with both numbers', async () => {
    const gate = new Gate()
    const pages = task({
      name: 'pages',
      uses: { vram: '${{ input.pages * 1073741824 }}' },
      run: ({ pages }: { pages: number }) => gate.pass(String(pages)),
    })
    const app = await apps.open({ tasks: [pages], budgets: ONE_GPU, lanes })
    await app.work({ capacity: 0 })
    for (const n of [20, 3, 2]) await app.submit(pages, { pages: n })
    await gate.arrived(2)
    expect(gate.arrivals).toEqual(['20', '3'])
    expect(await held('vram')).toBe(23 * 1024 ** 3)
    gate.open()
    await until(() => gate.arrivals.length === 3, 'the third to run')
    await expect(app.submit(pages, { pages: 48 })).rejects.toMatchObject({
      code: 'BUDGET_EXCEEDED',
      message: 'task pages needs 48GB of vram on one device; the largest has 24GB',
      details: { task: 'pages', budget: 'vram', needs: 48 * 1024 ** 3, largest: 24 * 1024 ** 3 },
    })
    await expect(app.submit(pages, { pages: -1 })).rejects.toMatchObject({ code: 'INVALID_INPUT' })
    await expect(app.submit(pages, {} as never)).rejects.toSatisfy((error) =>
      hasCode(error, 'EXPRESSION_FAILED'),
    )
    // Through SQL it is worked out by whoever meets it first.
    const [row] = await database.sql<{ id: string }>(`select sluice.submit('pages', '{"pages": 4}') as id`)
    await until(async () => (await app.getJob(String(row!.id))).state === 'completed', 'it to complete')
    const [bad] = await database.sql<{ id: string }>(`select sluice.submit('pages', '{"pages": 100}') as id`)
    const failed = await until(async () => {
      const job = await app.getJob(String(bad!.id))
      return job.state === 'failed' && job
    }, 'it to fail')
    expect(failed.error).toBe('budget: it needs 100GB of vram on one device; the largest has 24GB')
  })

  test('keeps nobody behind it waiting while it is more than any live device has, and why tells it', async () => {
    const gate = new Gate()
    const scan = task({
      name: 'scan',
      uses: { vram: '${{ input.gb * 1073741824 }}', readers: '${{ input.readers }}' },
      run: ({ gb }: { gb: number; readers: number }) => gate.pass(String(gb)),
    })
    const app = await apps.open({ tasks: [scan], budgets: { ...ONE_GPU, readers: 9 }, lanes })
    await app.work({ capacity: 0 })
    await app.stopWorking()
    const large = await app.submit(scan, { gb: 20, readers: 1 })
    const many = await app.submit(scan, { gb: 5, readers: 8 })
    await app.submit(scan, { gb: 6, readers: 2 })
    // Through SQL: what it needs is not known until somebody looks behind the large ones.
    await database.sql(`select sluice.submit('scan', '{"gb": 4, "readers": 2}')`)
    await app.submit(scan, { gb: 3, readers: 1 })
    await app.setBudget('readers', { capacity: 4 })
    await app.setBudget('vram', { limits: { gpu0: '11GB' } })
    await app.work({ capacity: 0 })
    await gate.arrived(2)
    // Those that fit keep their order: the third waits for the readers of the first two.
    expect(gate.arrivals).toEqual(['6', '4'])
    gate.open()
    await until(() => gate.arrivals.length === 3, 'the third to run')
    expect((await app.why(large.id)).reason).toMatch(
      /^it needs 20GB of vram on one device; the largest that a worker offers has 11GB: an operator's limit holds \S+ at 11GB$/,
    )
    expect((await app.why(many.id)).reason).toBe('budget readers is used up: it needs 8, 4 is left')
    await app.resetBudget('vram')
    await app.resetBudget('readers')
    await until(async () => (await app.getJob(many.id)).state === 'completed', 'both to run once they fit')
    await until(async () => (await app.getJob(large.id)).state === 'completed', 'both to run once they fit')
  })

  test('is raised after it ran out of memory, of memory only, and never beyond what could run', async () => {
    const GB = 1024 ** 3
    const runs = (needed?: number) => async (_: unknown, ctx: { attempt: number }) => {
      if (ctx.attempt === 1) throw outOfMemory(needed === undefined ? {} : { needed })
      return ctx.attempt
    }
    const uses = { vram: '4GB', encoders: 2 }
    const grows = task({ name: 'grows', uses, run: runs() })
    const speaks = task({ name: 'speaks', model: 'voice', uses: { vram: '16GB' }, run: runs(20 * GB) })
    const alien = task({ name: 'alien', uses, run: () => null })
    const budgets = { ...ONE_GPU, encoders: { gpu0: 8 } }
    const app = await apps.open({ tasks: [grows, speaks, alien], budgets, lanes })
    const [foreign] = await app.submitMany(alien, [undefined], { runAt: new Date(Date.now() + 3_600_000) })
    await app.work({ capacity: 0 })
    const drawn = async (id: string) =>
      (await database.sql<{ uses: unknown }>('select uses from sluice.jobs where id = $1', [id]))[0]!.uses
    const one = (each: number) => ({ devices: 1, each })
    for (const [each, expected] of [
      [grows, { uses: { vram: one(5 * GB), encoders: one(2) }, perJob: {} }],
      [speaks, { uses: { vram: one(16 * GB) }, perJob: { vram: one(8 * GB) } }],
    ] as const) {
      const job = await app.submit(each, undefined)
      expect(await job.result()).toBe(2)
      expect(await drawn(job.id)).toEqual(expected)
    }
    const counted = await database.sql(
      `select budget, out_of_memory::integer as times from sluice.devices where key like '%/gpu0' order by 1`,
    )
    expect(counted).toEqual([
      { budget: 'encoders', times: 0 },
      { budget: 'vram', times: 2 },
    ])
    // A late word about a job that is not the worker's leaves it alone, and waits for nobody who holds its row.
    await database.sql(
      `select sluice.claim_budgeted_v1(w.id, now(), jsonb_build_object('oom', jsonb_build_array(jsonb_build_object(
                'id', $1::bigint, 'devices', '[]'::jsonb, 'loading', false))), '{}', '{}', '{}')
         from sluice.workers w where w.ended_at is null limit 1`,
      [foreign!.id],
    )
    expect(await drawn(foreign!.id)).toBeNull()
    await app.cancel(foreign!.id)
  })

  test('that an operator has taken away for a while is waited for: nothing fails, and nothing is refused', async () => {
    const fixed = task({ name: 'fixed_ink', uses: { ink: 2 }, run: () => 'drawn' })
    const varied = task({
      name: 'varied_ink',
      uses: { ink: '${{ input.n }}' },
      run: (_: { n: number }) => 'drawn',
    })
    const app = await apps.open({ tasks: [fixed, varied], budgets: { ink: 3 }, lanes })
    await app.work({ capacity: 0 })
    await app.setBudget('ink', { capacity: 0 })
    const jobs = [await app.submit(fixed, undefined), await app.submit(varied, { n: 3 })]
    const [row] = await database.sql<{ id: string }>(
      `select sluice.submit('varied_ink', '{"n": 1}')::text as id`,
    )
    const known = `select 1 from sluice.jobs where id = $1 and uses is not null`
    await until(
      async () => (await database.sql(known, [row!.id])).length === 1,
      'its amounts to be worked out',
    )
    expect((await app.why(row!.id)).reason).toBe('budget ink is used up: it needs 1, 0 is left')
    await expect(app.submit(varied, { n: 4 })).rejects.toMatchObject({ code: 'BUDGET_EXCEEDED' })
    await app.resetBudget('ink')
    for (const job of [...jobs, app.job(row!.id)]) expect(await job.result()).toBe('drawn')
    // More than the file says counts as well, while it lasts.
    await app.setBudget('ink', { capacity: 5 })
    expect(await (await app.submit(varied, { n: 5 })).result()).toBe('drawn')
  })

  test('is refused at submit where it is fixed and too large, by SQL too, and fails a step of a workflow', async () => {
    const huge = task({ name: 'huge', uses: { vram: '48GB' }, run: () => null })
    const app = await apps.open({
      tasks: [huge],
      budgets: ONE_GPU,
      lanes,
      config: configOf({ workflows: { flow: { steps: { first: { task: 'huge' } } } } }),
    })
    await app.work({ capacity: 0 })
    await until(
      async () =>
        (await database.sql(`select 1 from sluice.tasks where name = 'huge' and refusal is not null`))
          .length === 1,
      'the device to be known',
    )
    await expect(app.submit(huge, undefined)).rejects.toMatchObject({ code: 'BUDGET_EXCEEDED' })
    await expect(database.sql(`select sluice.submit('huge')`)).rejects.toThrow('task huge needs 48GB of vram')
    expect(await database.sql(`select 1 from sluice.jobs where task = 'huge'`)).toEqual([])
    const flow = await app.submit('flow', null)
    await expect(flow.result()).rejects.toThrow(
      'budget: it needs 48GB of vram on one device; the largest has 24GB',
    )
  })

  test('waits without a bound where nobody knows a device, and says so', async () => {
    const lost = task({ name: 'lost', uses: { nothing: 1 }, run: () => null })
    const app = await apps.open({ tasks: [lost], lanes })
    expect(
      apps.logged
        .filter(({ level }) => level === 'warn')
        .map(({ fields, message }) => [fields.task, message]),
    ).toEqual([['lost', expect.stringContaining('uses budget nothing, which nobody has declared')]])
    await app.work({ capacity: 0 })
    const job = await app.submit(lost, undefined)
    const { reason, wait } = await app.why(job.id)
    expect(reason).toContain('no worker that runs task lost offers a device of budget nothing')
    expect(wait).toMatchObject({ kind: 'budget', budget: { budget: 'nothing' } })
    await app.cancel(job.id)
  })
})

describe('how many may wait', () => {
  test('is bounded for tasks that draw from budgets, by default and by setting, without a ghost row', async () => {
    const few = task({ name: 'few', uses: { tickets: 1 }, run: () => null })
    const many = task({ name: 'many', run: () => null })
    const app = await apps.open({ tasks: [few, many], budgets: { tickets: 1 }, maxQueued: 3, lanes })
    expect((await app.admission()).maxQueued).toMatchObject({ few: 3 })
    await app.submitMany(few, [undefined, undefined, undefined])
    await expect(app.submit(few, undefined)).rejects.toMatchObject({ code: 'ADMISSION_REJECTED' })
    const [row] = await database.sql<{ n: number }>(
      `select count(*)::integer as n from sluice.jobs where task = 'few'`,
    )
    expect(row!.n).toBe(3)
    // Others have no limit.
    await app.submitMany(
      many,
      Array.from({ length: 50 }, () => undefined),
    )
    await app.work({ capacity: 0 })
    await until(async () => (await app.listJobs({ status: ['queued'] })).length === 0, 'all to run')
    await app.setAdmission({ maxQueued: { few: null } })
  })

  test('is 500 where nobody says anything', async () => {
    const usual = task({ name: 'usual', uses: { tickets: 1 }, run: () => null })
    const app = await apps.open({ tasks: [usual], budgets: { tickets: 1 }, lanes })
    expect((await app.admission()).maxQueued).toMatchObject({ usual: 500 })
    await app.setAdmission({ maxQueued: { usual: null } })
    await apps.open({ tasks: [usual], budgets: { tickets: 1 }, lanes })
    expect((await app.admission()).maxQueued.usual).toBeUndefined()
  })

  test('is no longer bounded once a task draws from nothing, unless somebody has said so', async () => {
    const named = ['fixed', 'implied', 'set']
    const drawing = named.map((name) => task({ name, uses: { tickets: 1 }, run: () => null }))
    const plain = named.map((name) => task({ name, run: () => null }))
    const budgets = { tickets: 1 }
    const admission = { maxQueued: { fixed: 500 } }
    const app = await apps.open({ tasks: drawing, budgets, lanes })
    // A second time as an explicit limit, which is another thing though it is the same number.
    await apps.open({ tasks: drawing, budgets, lanes, admission })
    await app.setAdmission({ maxQueued: { set: 7 } })
    expect((await app.admission()).maxQueued).toMatchObject({ fixed: 500, implied: 500, set: 7 })
    await apps.open({ tasks: plain, lanes })
    const { maxQueued } = await app.admission()
    expect(named.map((name) => maxQueued[name])).toEqual([500, undefined, 7])
    await app.submitMany(
      'implied',
      Array.from({ length: 501 }, () => null),
    )
    const reset = (await app.resetAdmission()).maxQueued
    expect(named.map((name) => reset[name])).toEqual([500, undefined, undefined])
    // It comes back with the uses, and goes with them again after a reset.
    await apps.open({ tasks: drawing, budgets, maxQueued: 600, lanes })
    await app.resetAdmission()
    expect((await app.admission()).maxQueued).toMatchObject({ fixed: 600, implied: 600, set: 600 })
    await apps.open({ tasks: plain, lanes })
    const after = (await app.admission()).maxQueued
    expect(named.map((name) => after[name])).toEqual([600, undefined, undefined])
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

test('policy, settings and database agree on the rules of a budget that says nothing of them', async () => {
  expect({ quantum: DEFAULT_QUANTUM, maxWaitMs: DEFAULT_MAX_WAIT_MS }).toEqual(DEFAULT_RULES)
  const [made] = await database.sql<{ quantum: number; wait: string }>(
    `insert into sluice.budgets (name, kind) values ('silent', 'shared') returning quantum, max_wait_ms as wait`,
  )
  expect({ quantum: made!.quantum, maxWaitMs: Number(made!.wait) }).toEqual(DEFAULT_RULES)
})

describe('what is left behind', () => {
  test('a budget can be deleted once nobody uses it, and with it all that was noted of its devices', async () => {
    const gate = new Gate()
    const uses = { glue: '1GB' }
    const sticks = task({ name: 'sticks', model: 'stick', uses, run: () => gate.pass() })
    const app = await apps.open({ tasks: [sticks], budgets: { glue: { gpu0: '2GB' } }, lanes })
    const used = {
      code: 'BUDGET_IN_USE',
      message:
        'budget glue cannot be deleted: used by sticks; take it out of their uses and let their jobs end first',
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
      message: expect.stringContaining('1 running jobs draw from it'),
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
    await database.sql(`insert into sluice.reservations values (0, 1, 'old', 'box/stale', 1)`)
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

test('the times of a model are learned at the pace that the planner says', async () => {
  const load = (loadMs: number, learning: number) =>
    database.sql(`select sluice.note_models_v1(0, now(), $1)`, [
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

test('a task with a model and no uses is told at the start what that means', async () => {
  const loose = task({ name: 'loose', model: 'llm', run: () => null })
  const none = task({ name: 'none', uses: { zero: 1 }, run: () => null })
  await apps.open({ tasks: [loose, none], budgets: { zero: 0 }, lanes })
  const warnings = apps.logged.filter(({ level }) => level === 'warn')
  expect(warnings.map(({ fields, message }) => `${fields.task}: ${message}`)).toEqual([
    expect.stringMatching(/^loose: model llm is given without uses: its memory counts against nothing/),
    expect.stringMatching(/^none: uses budget zero, of which there is 0: none of its jobs can start/),
  ])
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

test('a GPU that stops telling its memory keeps its size, and a lost one is not found again by an older reading', async () => {
  const app = await apps.open({ budgets: { vram: { devices: 'auto' } } })
  const { db } = app.room
  const worker = await registerWorker(db, {
    ...{ name: 'reader', host: 'h', pid: 1, version: '0', capacity: 1, cores: 1, tasks: [], labels: {} },
  })
  const read = async (reading: { total: number | null; ageMs: number | null; lost?: boolean }) => {
    const { total, ageMs, lost = false } = reading
    const free = ageMs === null ? null : total
    const used = free === null ? null : 0
    const known = { budget: 'vram', key: 'GPU-a', name: 'A100' }
    await reportDevices(db, worker, [{ ...known, total, used, free, ageMs, lost }])
    const [device] = await database.sql<{ total: number; lost: boolean }>(
      `select total, lost_at is not null as lost from sluice.devices where key = 'GPU-a'`,
    )
    return device
  }
  expect(await read({ total: 24, ageMs: 0 })).toEqual({ total: 24, lost: false })
  expect(await read({ total: null, ageMs: null })).toEqual({ total: 24, lost: false })
  expect(await read({ total: 24, ageMs: null, lost: true })).toEqual({ total: 24, lost: true })
  expect(await read({ total: 24, ageMs: 60_000 })).toEqual({ total: 24, lost: true })
  expect(await read({ total: 24, ageMs: 0 })).toEqual({ total: 24, lost: false })
  await database.sql('update sluice.workers set ended_at = now() where id = $1', [worker])
})
