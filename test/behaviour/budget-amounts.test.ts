import { describe, expect, test } from 'vitest'
import { hasCode, outOfMemory, type SluiceOptions, task } from '../../src/index.ts'
import { useApps } from '../support/apps.ts'
import { useDatabase } from '../support/database.ts'
import { Gate } from '../support/gate.ts'
import { heldOf } from '../support/held.ts'
import { until } from '../support/until.ts'

const database = useDatabase()
const apps = useApps(database)
const held = (budget: string) => heldOf(database.sql, budget)

const ONE_GPU = { vram: { gpu0: '24GB' } }
const lanes = { default: { perWorker: null, poll: 200 } } as const

function configOf(config: unknown): NonNullable<SluiceOptions['config']> {
  return { file: undefined, folder: '.', config, tasks: [], workflows: [], locate: () => undefined } as never
}

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
      /^it needs 20GB of vram on one device; an operator's limit holds \S+, the largest that a worker offers, at 11GB$/,
    )
    expect((await app.why(many.id)).reason).toBe('budget readers has 4 in all; it needs 8')
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
    expect((await app.why(row!.id)).reason).toBe('budget ink has 0 in all; it needs 1')
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

  test('waits without a bound where nobody has declared the budget, and says so', async () => {
    const lost = task({ name: 'lost', uses: { nothing: 1 }, run: () => null })
    const app = await apps.open({ tasks: [lost], lanes })
    expect(
      apps.logged
        .filter(({ level }) => level === 'warn')
        .map(({ fields, message }) => [fields.task, message]),
    ).toEqual([['lost', expect.stringContaining('uses budget nothing, which is not declared')]])
    await app.work({ capacity: 0 })
    const job = await app.submit(lost, undefined)
    const { reason, wait } = await app.why(job.id)
    expect(reason).toBe(
      'task lost uses budget nothing, which does not exist: it was never declared, or it was deleted',
    )
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
