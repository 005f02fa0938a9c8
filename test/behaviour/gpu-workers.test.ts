import { afterEach, describe, expect, test } from 'vitest'
import { type JobHandle, type LoadedConfig, model, outOfMemory, task } from '../../src/index.ts'
import { useApps } from '../support/apps.ts'
import { useDatabase } from '../support/database.ts'
import { FakeGpus } from '../support/fake-gpus.ts'
import { Gate } from '../support/gate.ts'
import { until } from '../support/until.ts'

// Workers on a machine with two GPUs, one of 24 GB and one of 8: the real dispatch, the real readings, and models that take
// memory of GPUs that exist in a folder. A model that does not fit fails to load as it would in CUDA, so whatever is given out
// twice is noticed.

const database = useDatabase()
const undo: (() => unknown)[] = []

// The last to be told is the first to be done: when this is done, the programs of the test have been closed.
afterEach(async () => {
  for (const each of undo.splice(0).reverse()) await each()
  // Each test has a machine of its own.
  await database.sql('delete from sluice.models')
  await database.sql('delete from sluice.worker_devices')
  await database.sql(`delete from sluice.devices where key <> ''`)
})
const apps = useApps(database)

const GB = 1024 ** 3
const BIG = 'GPU-big'
const SMALL = 'GPU-small'
const budgets = { vram: { devices: 'auto' } } as const
const lanes = { default: { perWorker: null, poll: 200 } } as const
function machine(): FakeGpus {
  const gpus = new FakeGpus([
    { uuid: BIG, totalMiB: 24 * 1024, keptMiB: 0 },
    { uuid: SMALL, totalMiB: 8 * 1024, keptMiB: 0 },
  ])
  undo.push(() => gpus.delete())
  undo.push(gpus.install())
  return gpus
}

async function devices(): Promise<Record<string, { free: number; lost: boolean }>> {
  const rows = await database.sql<{ key: string; free: string; lost: boolean }>(
    `select key, measured_free as free, lost_at is not null as lost from sluice.devices where key <> ''`,
  )
  return Object.fromEntries(rows.map(({ key, free, lost }) => [key, { free: Number(free), lost }]))
}

/** Jobs of a task that has this model; each tells the devices it ran on. */
function user(name: string, llm: ReturnType<FakeGpus['model']>, uses: string, gate?: Gate) {
  return task({
    name,
    model: llm,
    uses: { vram: uses },
    run: async (n: number, ctx) => {
      await gate?.pass(`${name}${n}`)
      const { devices } = llm.of(ctx)
      expect(devices).toEqual(ctx.devices)
      return devices.join(' ')
    },
  })
}

const results = (jobs: readonly JobHandle<string>[]) => Promise.all(jobs.map((job) => job.result()))

describe('models', () => {
  test('are loaded once for all their jobs, on different GPUs at the same time, and unloaded when the worker stops', async () => {
    const gpus = machine()
    const loads: string[] = []
    const unloads: string[] = []
    const gate = new Gate()
    const one = user('one', gpus.model('llama', 20 * GB, { loads, unloads, gate }), '20GB')
    const two = user('two', gpus.model('whisper', 6 * GB, { loads, unloads, gate }), '6GB')
    const app = await apps.open({ tasks: [one, two], budgets, lanes })
    const jobs = [...(await app.submitMany(one, [1, 2, 3])), ...(await app.submitMany(two, [1, 2, 3]))]
    await app.work({ capacity: 0 })
    // Both wait at the gate: neither load waits for the other.
    await gate.arrived(2)
    const loading = await until(
      async () => (await app.getJob(jobs[0]!.id)).message === 'loading llama',
      'the job to tell that its model is loaded',
    )
    expect(loading).toBe(true)
    gate.open()
    expect(await results(jobs)).toEqual([BIG, BIG, BIG, SMALL, SMALL, SMALL])
    expect(loads.sort()).toEqual([`llama ${BIG}`, `whisper ${SMALL}`])
    expect(gpus.used(BIG)).toBe(20 * GB)

    const learned = await until(async () => {
      const rows = await database.sql<{ name: string; load_ms: number; amounts: Record<string, number> }>(
        'select name, load_ms, amounts from sluice.models order by name',
      )
      return rows.length === 2 && rows.every((row) => row.load_ms !== null) && rows
    }, 'load times and memory to be learned')
    expect(learned.map(({ name, amounts }) => [name, amounts])).toEqual([
      ['llama', { vram: 20 * GB }],
      ['whisper', { vram: 6 * GB }],
    ])
    await app.close()
    expect(unloads.sort()).toEqual([`llama ${BIG}`, `whisper ${SMALL}`])
    expect(gpus.used(BIG) + gpus.used(SMALL)).toBe(0)
  })

  test('make room for each other, and the next is loaded only when the memory shows as free', async () => {
    const gpus = machine()
    const loads: string[] = []
    const first = user('first', gpus.model('llama', 20 * GB, { loads, lagMs: 700 }), '20GB')
    const second = user('second', gpus.model('mixtral', 16 * GB, { loads }), '16GB')
    const app = await apps.open({ tasks: [first, second], budgets, lanes })
    await app.work({ capacity: 0 })
    await (await app.submit(first, 1)).result()
    const job = await app.submit(second, 1)
    expect(await job.result()).toBe(BIG)
    const { attempt } = await app.getJob(job.id)
    expect({ loads, attempt }).toEqual({ loads: [`llama ${BIG}`, `mixtral ${BIG}`], attempt: 1 })
  })

  test('of another worker on the same machine make room too', async () => {
    const gpus = machine()
    const loads: string[] = []
    const unloads: string[] = []
    const first = user('first', gpus.model('llama', 20 * GB, { loads, unloads }), '20GB')
    const second = user('second', gpus.model('mixtral', 16 * GB, { loads, unloads }), '16GB')
    const one = await apps.open({ tasks: [first, second], budgets, lanes })
    const other = await apps.open({ tasks: [first, second], budgets, lanes })
    await one.work({ capacity: 0, tasks: ['first'] })
    await other.work({ capacity: 0, tasks: ['second'] })
    expect(await (await one.submit(first, 1)).result()).toBe(BIG)
    expect(await (await one.submit(second, 1)).result()).toBe(BIG)
    expect(await (await one.submit(first, 2)).result()).toBe(BIG)
    expect(loads).toEqual([`llama ${BIG}`, `mixtral ${BIG}`, `llama ${BIG}`])
    expect(unloads).toEqual([`llama ${BIG}`, `mixtral ${BIG}`])
  })

  test('make room on a full worker, too', async () => {
    const gpus = machine()
    const gate = new Gate()
    const unloads: string[] = []
    const idle = user('idle', gpus.model('llama', 20 * GB, { unloads }), '20GB')
    const busy = user('busy', gpus.model('whisper', 4 * GB), '4GB', gate)
    const next = user('next', gpus.model('mixtral', 16 * GB), '16GB')
    const full = await apps.open({ tasks: [idle, busy, next], budgets, lanes })
    const other = await apps.open({ tasks: [idle, busy, next], budgets, lanes })
    await full.work({ capacity: 1, tasks: ['idle', 'busy'] })
    expect(await (await full.submit(idle, 1)).result()).toBe(BIG)
    const held = await full.submit(busy, 1)
    await gate.arrived(1)
    await other.work({ capacity: 1, tasks: ['next'] })
    expect(await (await other.submit(next, 1)).result()).toBe(BIG)
    expect(unloads).toEqual([`llama ${BIG}`])
    gate.open()
    expect(await held.result()).toBe(SMALL)
  })

  test('a load that fails is the failure of its job', async () => {
    machine()
    const broken = model({
      name: 'broken',
      load: () => {
        throw new Error('no such weights')
      },
    })
    const work = task({
      name: 'work',
      model: broken,
      uses: { vram: '1GB' },
      retry: { attempts: 1 },
      run: () => 1,
    })
    const app = await apps.open({ tasks: [work], budgets, lanes })
    await app.work({ capacity: 0 })
    const job = await app.submit(work, undefined)
    await expect(job.result()).rejects.toThrow('no such weights')
    await until(
      async () =>
        (
          await database.sql(
            'select 1 from sluice.residents r join sluice.workers w on w.id = r.worker_id where w.ended_at is null',
          )
        ).length === 0,
      'its memory to be given back',
    )
  })

  test('a cancelled job does not keep a model from being loaded for others, nor its memory', async () => {
    const gpus = machine()
    const gate = new Gate()
    const work = user('work', gpus.model('llama', 20 * GB, { gate }), '20GB')
    const app = await apps.open({ tasks: [work], budgets, lanes })
    await app.work({ capacity: 0 })
    const job = await app.submit(work, 1)
    await gate.arrived(1)
    await app.cancel(job.id)
    await expect(job.result()).rejects.toThrow('cancelled')
    gate.open()
    await until(() => gpus.used(BIG) === 0 || gpus.used(BIG) === 20 * GB, 'the load to settle')
    expect(await (await app.submit(work, 2)).result()).toBe(BIG)
  })
})

describe('programs', () => {
  const SHOW =
    'console.log(1); fs.writeFileSync(process.env.SLUICE_RESULT, JSON.stringify({ model: process.env.SLUICE_MODEL, devices: process.env.SLUICE_DEVICES, visible: process.env.CUDA_VISIBLE_DEVICES, order: process.env.CUDA_DEVICE_ORDER }))'

  function configOf(tasks: Readonly<Record<string, object>>): LoadedConfig {
    return { config: { tasks }, folder: process.cwd(), locate: () => undefined } as unknown as LoadedConfig
  }

  test('see only the devices reserved for them; tasks without a budget see none', async () => {
    machine()
    const show = [process.execPath, '-e', `const fs = require('node:fs'); ${SHOW}`]
    const config = configOf({
      ask: { exec: show, model: 'llama', uses: { vram: { devices: 1, each: 20 * GB } } },
      pair: { exec: show, uses: { vram: { devices: 2, each: GB } } },
      plain: { exec: show },
    })
    const app = await apps.open({ config, budgets, lanes })
    await app.work({ capacity: 0 })
    const order = 'PCI_BUS_ID'
    expect(await (await app.submit('ask', null)).result()).toEqual({
      model: 'llama',
      devices: BIG,
      visible: BIG,
      order,
    })
    const both = [BIG, SMALL].join(',')
    expect(await (await app.submit('pair', null)).result()).toEqual({ devices: both, visible: both, order })
    expect(await (await app.submit('plain', null)).result()).toEqual({})
  })

  test('that say on stderr that the GPU is out of memory, whatever they say after it, come back with more', async () => {
    machine()
    const script = `if (process.env.SLUICE_DEVICES === '${SMALL}') {
      console.error('torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 11.00 GiB. GPU 0 has 7.00 GiB. Including non-PyTorch memory, this process has 1.00 GiB memory in use.')
      for (let i = 0; i < 20; i++) console.error('line ' + i)
      process.exit(1)
    }`
    const config = configOf({
      heavy: { exec: [process.execPath, '-e', script], uses: { vram: { devices: 1, each: 2 * GB } } },
    })
    const app = await apps.open({ config, budgets, lanes })
    await app.work({ capacity: 0 })
    const job = await app.submit('heavy', null)
    await job.result()
    expect(await app.getJob(job.id)).toMatchObject({ attempt: 2, failures: 0 })
    expect((await app.listAttempts(job.id)).map(({ ending }) => ending)).toContain('out_of_memory')
  })

  test('in a pool process see their devices and the name of their model, which they load themselves', async () => {
    machine()
    const module = new URL('../support/fixtures/process-tasks.mjs', import.meta.url).href
    const tasks = [
      task({
        name: 'devices',
        execution: 'process',
        module,
        model: 'llama',
        uses: { vram: '20GB' },
        run: () => null as unknown,
      }),
    ]
    const app = await apps.open({ tasks, budgets, lanes })
    await app.work({ capacity: 0, pool: { size: 1 } })
    const job = await app.submit(tasks[0]!, undefined)
    expect(await job.result()).toEqual({
      devices: [BIG],
      model: { name: 'llama', devices: [BIG], loaded: false },
    })
  })

  test('in a pool process cannot have a model of hooks', () => {
    const llama = model({ name: 'llama', load: () => 1 })
    const odd = () =>
      task({ name: 'odd', execution: 'process', module: 'file:///x.mjs', model: llama, run: () => 1 })
    expect(odd).toThrow(
      /task "odd": a pool process cannot use what the worker loads: give the model by its name/,
    )
  })
})

test('two models of one name are refused, and a task reads only its own', async () => {
  machine()
  const one = model({ name: 'llama', load: () => 1 })
  const other = model({ name: 'llama', load: () => 2 })
  const more = model({ name: 'other', load: () => 3 })
  const first = task({
    name: 'first',
    model: one,
    uses: { vram: 1 },
    retry: { attempts: 1 },
    run: (_: number, ctx) => more.of(ctx),
  })
  const second = task({ name: 'second', model: other, uses: { vram: 1 }, run: () => 1 })
  const both = await apps.open({ tasks: [first, second], budgets, lanes })
  await expect(both.work()).rejects.toThrow('two models are named "llama"')
  const app = await apps.open({ tasks: [first], budgets, lanes })
  await app.work({ capacity: 0 })
  await expect((await app.submit(first, 1)).result()).rejects.toThrow(
    'model other: task first has model llama',
  )
})

describe('readings', () => {
  test("a stranger's memory is left alone: the job waits, and runs when the stranger has gone", async () => {
    const gpus = machine()
    const free = gpus.take(BIG, 10 * GB)
    const work = user('work', gpus.model('llama', 20 * GB), '20GB')
    const app = await apps.open({ tasks: [work], budgets, lanes })
    await app.work({ capacity: 0 })
    await until(async () => (await devices())[BIG]?.free === 14 * GB, 'the stranger to be seen')
    const job = await app.submit(work, 1)
    await until(async () => (await app.why(job.id)).reason !== undefined, 'an explanation')
    expect((await app.getJob(job.id)).status).toBe('queued')
    free()
    expect(await job.result()).toBe(BIG)
    expect((await app.getJob(job.id)).attempt).toBe(1)
  })

  test('a GPU that is gone gets no work until it is back', async () => {
    const gpus = machine()
    const work = user('work', gpus.model('llama', 20 * GB), '20GB')
    const small = user('small', gpus.model('whisper', 4 * GB), '4GB')
    const app = await apps.open({ tasks: [work, small], budgets, lanes })
    await app.work({ capacity: 0 })
    await until(async () => (await devices())[BIG]?.lost === false, 'both GPUs to be seen')
    // Also not on a model that is loaded there.
    expect(await (await app.submit(work, 0)).result()).toBe(BIG)
    gpus.remove(BIG)
    await until(async () => (await devices())[BIG]?.lost === true, 'the loss to be seen')
    const waiting = await app.submit(work, 1)
    expect(await (await app.submit(small, 1)).result()).toBe(SMALL)
    expect((await app.getJob(waiting.id)).status).toBe('queued')
    gpus.add({ uuid: BIG, totalMiB: 24 * 1024 })
    expect(await waiting.result()).toBe(BIG)

    // So do all of them while the program is gone that showed them: the machine does not become one without bounds.
    gpus.installed = false
    await until(async () => Object.values(await devices()).every(({ lost }) => lost), 'all to be lost')
    const next = await app.submit(small, 2)
    expect((await app.why(next.id)).reason).toBe(
      `its model whisper needs 4GB of vram; ${BIG}, ${SMALL} are lost, and no other device is offered`,
    )
    gpus.installed = true
    expect(await next.result()).toBe(SMALL)
  })

  test('while nvidia-smi hangs, what is held counts alone; nothing is given out before the GPUs have been read once', async () => {
    const gpus = machine()
    gpus.mode = 'hang'
    const first = user('first', gpus.model('llama', 20 * GB), '20GB')
    const second = user('second', gpus.model('mixtral', 16 * GB), '16GB')
    const app = await apps.open({ tasks: [first, second], budgets, lanes })
    const early = await app.submit(first, 1)
    await app.work({ capacity: 0 })
    await until(
      () => apps.logged.some(({ message }) => message.startsWith('the GPUs cannot be read')),
      'the hang to be noticed',
    )
    expect((await app.getJob(early.id)).status).toBe('queued')
    gpus.mode = 'works'
    expect(await early.result()).toBe(BIG)

    await until(async () => (await devices())[BIG]?.free === 4 * GB, 'the model to be seen')
    gpus.mode = 'hang'
    const job = await app.submit(second, 1)
    // As if 15 s had passed: the worker tells its last reading with its age, again and again.
    const done = job.result()
    let over = false
    void done.finally(() => {
      over = true
    })
    await until(async () => {
      await database.sql(`update sluice.devices set measured_at = measured_at - interval '20 seconds'`)
      return over
    }, 'the job to run by what is held')
    expect(await done).toBe(BIG)
  })
})

describe('out of memory', () => {
  test('a model that needs more than was thought goes to where there is more, and no attempt is burned', async () => {
    const gpus = machine()
    const loads: string[] = []
    const work = user('work', gpus.model('llama', 12 * GB, { loads }), '7GB')
    const app = await apps.open({ tasks: [work], budgets, lanes })
    await app.work({ capacity: 0 })
    const job = await app.submit(work, 1)
    expect(await job.result()).toBe(BIG)
    const [row] = await database.sql<{ failures: number; amount: number }>(
      `select j.failures, (m.amounts ->> 'vram')::float8 as amount from sluice.jobs j, sluice.models m where j.id = $1 and m.name = 'llama'`,
      [job.id],
    )
    expect(row!.failures).toBe(0)
    expect(row!.amount).toBeGreaterThan(8 * GB)
    expect(loads.at(-1)).toBe(`llama ${BIG}`)
  })

  test('a job that says what it needs comes back when that much is there', async () => {
    machine()
    const tries: string[] = []
    const heavy = task({
      name: 'heavy',
      uses: { vram: '2GB' },
      run: (_: number, ctx) => {
        tries.push(ctx.devices.join(' '))
        if (ctx.devices[0] === SMALL) throw outOfMemory({ needed: 12 * GB })
        return 'done'
      },
    })
    const app = await apps.open({ tasks: [heavy], budgets, lanes })
    await app.work({ capacity: 0 })
    const job = await app.submit(heavy, 1)
    expect(await job.result()).toBe('done')
    expect(tries).toEqual([SMALL, BIG])
    const attempts = await app.listAttempts(job.id)
    expect(attempts.map(({ ending }) => ending)).toContain('out_of_memory')
  })

  test('what never fits fails in the end, and a task without a budget fails at once', async () => {
    machine()
    const never = task({
      name: 'never',
      uses: { vram: '1GB' },
      run: (_: number) => {
        throw new Error('CUDA out of memory. Tried to allocate 2.00 GiB.')
      },
    })
    const plain = task({
      name: 'plain',
      retry: { attempts: 1 },
      run: () => {
        throw new Error('CUDA out of memory')
      },
    })
    const app = await apps.open({ tasks: [never, plain], budgets, lanes })
    await app.work({ capacity: 0 })
    await expect((await app.submit(never, 1)).result()).rejects.toThrow('CUDA out of memory')
    await expect((await app.submit(plain, undefined)).result()).rejects.toThrow('CUDA out of memory')
  })
})
