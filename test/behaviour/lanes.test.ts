import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { availableParallelism, tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { type LoadedConfig, loadConfig, type Sluice, type SluiceOptions, task } from '../../src/index.ts'
import { useApps } from '../support/apps.ts'
import { useDatabase } from '../support/database.ts'
import { Gate } from '../support/gate.ts'
import { until } from '../support/until.ts'

const database = useDatabase()
const apps = useApps(database)

async function configOf(text: string): Promise<LoadedConfig> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-lanes-'))
  try {
    await writeFile(join(folder, 'sluice.yaml'), text)
    return await loadConfig({ folder })
  } finally {
    await rm(folder, { recursive: true })
  }
}

async function lane(app: Sluice, name: string) {
  return (await app.listLanes()).find((each) => each.name === name)!
}

describe('what a lane is set to', () => {
  test('the lanes of a fresh database are there, with their defaults', async () => {
    const app = await apps.open({ actor: 'first' })

    const lanes = (await app.listLanes()).map(
      ({ name, slots, perWorker, pollMs, staleMs, enabled, ageingMs, placement, prefetch }) => ({
        name,
        slots,
        perWorker,
        pollMs,
        staleMs,
        enabled,
        ageingMs,
        placement,
        prefetch,
      }),
    )

    const common = { staleMs: 15_000, enabled: true, ageingMs: null, placement: 'fill', prefetch: 1000 }
    expect(lanes).toEqual([
      { name: 'default', slots: null, perWorker: -1, pollMs: 2000, ...common },
      { name: 'interactive', slots: 2, perWorker: null, pollMs: 2000, ...common },
      { name: 'maintenance', slots: 1, perWorker: null, pollMs: 15_000, ...common },
      { name: 'system', slots: 1, perWorker: null, pollMs: 30_000, ...common },
    ])
  })

  test('a program that says nothing about a lane changes nothing in it', async () => {
    await apps.open({ lanes: { own: { slots: 7, poll: '3s', perWorker: 4 }, interactive: { slots: 5 } } })
    const other = await apps.open({ lanes: { own: { poll: '4s' } } })

    expect(await lane(other, 'own')).toMatchObject({ slots: 7, perWorker: 4, pollMs: 4000 })
    expect(await lane(other, 'interactive')).toMatchObject({ slots: 5 })
  })

  test('an operator\u2019s change survives a restart with a file and code that say otherwise, until it is reset', async () => {
    const lanes = { ruled: { slots: 3, poll: '1s', enabled: true } }
    const first = await apps.open({ lanes, actor: 'deploy' })
    expect(await lane(first, 'ruled')).toMatchObject({ slots: 3, operatorSet: [], updatedBy: 'deploy' })
    const operator = await apps.open({ actor: 'olga' })
    await operator.setLane('ruled', { slots: 1, enabled: false })
    await first.close()

    const file = await configOf('lanes: { ruled: { slots: 3, poll: 1500ms, enabled: true } }')
    const again = await apps.open({ config: file, actor: 'deploy' })
    expect(await lane(again, 'ruled')).toMatchObject({
      slots: 1,
      enabled: false,
      pollMs: 1500,
      operatorSet: ['enabled', 'slots'],
    })

    await operator.resetLane('ruled')
    expect(await lane(again, 'ruled')).toMatchObject({
      slots: 3,
      enabled: true,
      pollMs: 1500,
      operatorSet: [],
    })
  })

  test('an operator\u2019s prefetch survives a deploy that sets another, until it is reset', async () => {
    const stored = () => database.sql(`select prefetch from sluice.lanes where name = 'ahead'`)
    const first = await apps.open({ lanes: { ahead: { slots: 3, prefetch: 20 } } })
    expect(await lane(first, 'ahead')).toMatchObject({ prefetch: 20, operatorSet: [] })
    expect(await first.setLane('ahead', { prefetch: 'off' })).toMatchObject({
      prefetch: 0,
      operatorSet: ['prefetch'],
    })
    expect(await stored()).toEqual([{ prefetch: 0 }])

    const again = await apps.open({ config: await configOf('lanes: { ahead: { prefetch: 30 } }') })
    expect(await lane(again, 'ahead')).toMatchObject({ prefetch: 0, operatorSet: ['prefetch'] })
    expect(await again.resetLane('ahead')).toMatchObject({ prefetch: 30, operatorSet: [] })

    await apps.open({ config: await configOf('lanes: { ahead: { prefetch: off } }') })
    expect(await stored()).toEqual([{ prefetch: 0 }])
    await expect(again.setLane('ahead', { prefetch: 1001 })).rejects.toMatchObject({
      code: 'INVALID_ARGUMENT',
      message: expect.stringContaining('a whole number from 0 to 1000, or off'),
    })
    await expect(
      database.sql(`update sluice.lanes set prefetch = 1001 where name = 'ahead'`),
    ).rejects.toThrow('lanes_prefetch_check')
  })

  test('a lane keeps the prefetch that it is created with, and the default when it is reset to nothing else', async () => {
    const app = await apps.open({})
    expect(await app.createLane('plain')).toMatchObject({ prefetch: 1000, operatorSet: [] })
    expect(await app.createLane('eager', { prefetch: 1000 })).toMatchObject({
      prefetch: 1000,
      operatorSet: ['prefetch'],
    })
    // A program that declares the lane without a prefetch leaves the operator's; a reset brings the default.
    await apps.open({ lanes: { eager: { slots: 2 } } })
    expect(await lane(app, 'eager')).toMatchObject({ prefetch: 1000, declared: true })
    expect(await app.resetLane('eager')).toMatchObject({ prefetch: 1000, operatorSet: [] })
    expect(await app.setLane('interactive', { prefetch: 0 })).toMatchObject({ prefetch: 0 })
    expect(await app.resetLane('interactive')).toMatchObject({ prefetch: 1000 })
  })

  test('which task is in which lane follows file and code', async () => {
    const moves = task({ name: 'moves', run: (_: unknown) => null })
    const at = async (options: SluiceOptions) => {
      const app = await apps.open(options)
      const { id } = await app.submit('moves', 1)
      await app.cancel(id)
      return (await app.getJob(id)).lane
    }

    expect(await at({ tasks: [moves] })).toBe('default')
    expect(await at({ tasks: [{ ...moves, lane: 'system' }] })).toBe('system')
    expect(await at({ tasks: [moves], lanes: { aside: { slots: 1, tasks: ['moves'] } } })).toBe('aside')
    const config = await configOf('lanes: { interactive: { tasks: [moves] } }')
    expect(await at({ tasks: [{ ...moves, lane: 'system' }], config })).toBe('interactive')
  })

  test('a task in two lanes, a lane that cannot work and a lane nobody knows are refused', async () => {
    const twice = task({ name: 'twice', run: () => null })
    const open = (options: SluiceOptions) => apps.open({ tasks: [twice], ...options })

    await expect(
      open({ lanes: { one: { slots: 1, tasks: ['twice'] }, two: { slots: 1, tasks: ['twice'] } } }),
    ).rejects.toThrow('task twice is in two lanes, one and two: leave it in one')
    await expect(open({ lanes: { bad: { slots: -1 } } })).rejects.toMatchObject({
      code: 'INVALID_CONFIG',
      message: expect.stringContaining('lanes.bad.slots'),
    })
    await expect(open({ lanes: { 'no spaces': { slots: 1 } } })).rejects.toMatchObject({
      code: 'INVALID_CONFIG',
    })
    await expect(apps.open({ tasks: [{ ...twice, lane: 'nowhere' }] })).rejects.toMatchObject({
      code: 'INVALID_CONFIG',
      message: expect.stringMatching(
        /^lane of task twice: lane nowhere does not exist; existing lanes: .*default.*; use one of them, or declare it: sluice\(\{ lanes: \{ 'nowhere': \{\} \} \}\)$/,
      ),
    })
    await expect(apps.open({ tasks: [{ ...twice, lane: 'interactiv' }] })).rejects.toThrow(
      'did you mean interactive?',
    )

    const app = await apps.open({})
    await expect(app.setLane('nowhere', { slots: 1 })).rejects.toMatchObject({
      code: 'LANE_NOT_FOUND',
      message: expect.stringMatching(
        /^lane "nowhere" does not exist; existing lanes: .*default.*interactive/,
      ),
    })
    await expect(app.resetLane('nowhere')).rejects.toMatchObject({ code: 'LANE_NOT_FOUND' })
    expect(await app.setLane('maintenance', { poll: '0s' })).toMatchObject({ pollMs: 10 })
    await app.resetLane('maintenance')
    for (const change of [
      { slots: -1 },
      { slots: 1.5 },
      { perWorker: -2 },
      { poll: -1 },
      { poll: null as never },
      { poll: '2 hours' },
      { stale: 0 },
      { ageing: 10 },
      { enabled: 'yes' as never },
      { prefetch: -1 },
      { prefetch: 1001 },
      { prefetch: 2.5 },
      { prefetch: null as never },
      { depth: 5 } as never,
    ]) {
      await expect(app.setLane('system', change), JSON.stringify(change)).rejects.toMatchObject({
        code: 'INVALID_ARGUMENT',
      })
    }
    expect(await lane(app, 'system')).toMatchObject({ slots: 1, operatorSet: [] })
  })

  test('a submission\u2019s lane wins over the task\u2019s', async () => {
    const anywhere = task({ name: 'anywhere', lane: 'system', run: (_: unknown, ctx) => ctx.job.id })
    const app = await apps.open({ tasks: [anywhere], lanes: { express: { slots: 1 } } })
    await app.setLane('system', { enabled: false })
    await app.work()

    const job = await app.submit(anywhere, null, { lane: 'express' })

    expect(await job.result()).toBe(job.id)
    expect(await app.getJob(job.id)).toMatchObject({ lane: 'express' })
    // A second worker, started later, knows that pair of task and lane as well.
    await app.stopWorking()
    const other = await apps.open({ tasks: [anywhere] })
    await other.work()
    await other.submit(anywhere, null, { lane: 'express' }).then((next) => next.result())
    await app.setLane('system', { enabled: true })
  })
})

describe('limits', () => {
  test('a lane never runs more than its slots, over several workers, and uses all of them', async () => {
    const gates = [new Gate(), new Gate()]
    let running = 0
    let most = 0
    const held = task({
      name: 'held',
      lane: 'three',
      run: async (n: number) => {
        most = Math.max(most, ++running)
        await gates[n < 12 ? 0 : 1]!.pass()
        running--
      },
    })
    const options = { tasks: [held], lanes: { three: { slots: 3 } } }
    const workers = [await apps.open(options), await apps.open(options)]
    for (const worker of workers) await worker.work({ capacity: 10 })
    const jobs = await workers[0]!.submitMany(
      held,
      Array.from({ length: 24 }, (_, n) => n),
    )

    await gates[0]!.arrived(3)
    expect(await lane(workers[0]!, 'three')).toMatchObject({ running: 3, held: 3 })
    for (const gate of gates) gate.open()
    await Promise.all(jobs.map((job) => job.result()))
    expect(most).toBe(3)
  })

  test('growing takes effect at once, for a worker that is already there', async () => {
    const gate = new Gate()
    const held = task({ name: 'grows', lane: 'grow', run: () => gate.pass() })
    const app = await apps.open({ tasks: [held], lanes: { grow: { slots: 1 } } })
    await app.work({ capacity: 10 })
    const jobs = await app.submitMany(held, Array.from({ length: 5 }))
    await gate.arrived(1)
    await until(
      async () => (await app.why(jobs[1]!.id)).reason.includes('is full: 1 of 1'),
      'the lane to be full',
    )

    await app.setLane('grow', { slots: 3 })
    await gate.arrived(3)
    await until(
      async () => (await app.why(jobs[4]!.id)).reason.includes('is full: 3 of 3'),
      'the lane to be full',
    )
    await app.setLane('grow', { slots: null })
    await gate.arrived(5)
    gate.open()
    await Promise.all(jobs.map((job) => job.result()))
  })

  test('shrinking below what runs kills nothing and lets nothing start until it fits', async () => {
    const gates = Array.from({ length: 8 }, () => new Gate())
    const signals: AbortSignal[] = []
    const held = task({
      name: 'shrinks',
      lane: 'shrink',
      run: async (n: number, ctx) => {
        signals.push(ctx.signal)
        await gates[n]!.pass()
      },
    })
    const app = await apps.open({ tasks: [held], lanes: { shrink: { slots: 4 } } })
    await app.work({ capacity: 10 })
    const jobs = await app.submitMany(
      held,
      gates.map((_, n) => n),
    )
    await Promise.all(gates.slice(0, 4).map((gate) => gate.arrived()))

    await app.setLane('shrink', { slots: 2 })
    expect(await lane(app, 'shrink')).toMatchObject({ running: 4, slots: 2 })
    for (const n of [0, 1]) {
      gates[n]!.open()
      await jobs[n]!.result()
    }
    // Two still run, which is what fits: nothing new, though four wait and the worker is free.
    await until(
      async () => (await app.why(jobs[4]!.id)).reason.includes('is full: 2 of 2'),
      'the lane to be full',
    )
    expect(await lane(app, 'shrink')).toMatchObject({ running: 2 })
    expect(gates[4]!.arrivals).toHaveLength(0)
    gates[2]!.open()
    await gates[4]!.arrived()
    expect(await lane(app, 'shrink')).toMatchObject({ running: 2 })

    for (const gate of gates) gate.open()
    await Promise.all(jobs.map((job) => job.result()))
    expect(signals.filter((signal) => signal.aborted)).toEqual([])
  })

  test('a limit given to a lane that had none holds for what starts from then on', async () => {
    const gates = Array.from({ length: 6 }, () => new Gate())
    const held = task({ name: 'bounded', lane: 'open', run: (n: number) => gates[n]!.pass() })
    const app = await apps.open({ tasks: [held], lanes: { open: { slots: null, perWorker: null } } })
    await app.work({ capacity: 10 })
    const jobs = await app.submitMany(held, [0, 1, 2])
    await Promise.all(gates.slice(0, 3).map((gate) => gate.arrived()))

    await app.setLane('open', { slots: 2 })
    jobs.push(...(await app.submitMany(held, [3, 4, 5])))
    gates[0]!.open()
    await jobs[0]!.result()
    await until(async () => (await app.why(jobs[3]!.id)).reason.includes('is full'), 'the lane to be full')
    expect(gates[3]!.arrivals).toHaveLength(0)
    for (const gate of gates) gate.open()
    await Promise.all(jobs.map((job) => job.result()))
  })

  test('slots: 0 starts nothing', async () => {
    const never = task({ name: 'never', lane: 'zero', run: () => 'ran' })
    const app = await apps.open({ tasks: [never], lanes: { zero: { slots: 0 } } })
    await app.work()
    const job = await app.submit(never, undefined)
    await until(async () => (await app.why(job.id)).wait.kind === 'lane_closed', 'the reason')

    await app.setLane('zero', { slots: 1 })
    expect(await job.result()).toBe('ran')
  })

  test('a disabled lane lets what runs end and starts nothing; enabled, it goes on', async () => {
    const gate = new Gate()
    const drains = task({
      name: 'drains',
      lane: 'drain',
      run: async (n: number) => (n === 0 ? gate.pass().then(() => n) : n),
    })
    const app = await apps.open({ tasks: [drains], lanes: { drain: { slots: 2 } } })
    await app.work({ capacity: 4 })
    const running = await app.submit(drains, 0)
    await gate.arrived()
    await app.setLane('drain', { enabled: false })
    const waiting = await app.submit(drains, 1)
    await until(async () => (await app.why(waiting.id)).reason === 'lane drain is paused', 'the reason')

    gate.open()
    await running.result()
    expect(await app.getJob(waiting.id)).toMatchObject({ status: 'queued', attempt: 0 })
    await app.setLane('drain', { enabled: true })
    expect(await waiting.result()).toBe(1)
  })

  test.each([
    ['a number', 2, 2],
    ['cores', 0, availableParallelism()],
  ])('perWorker as %s bounds each worker, not the system', async (name, perWorker, most) => {
    const gate = new Gate()
    const own = `per-${name.replace(' ', '-')}`
    const held = task({ name: own, lane: own, run: () => gate.pass() })
    const options = { tasks: [held], lanes: { [own]: { slots: null, perWorker } } }
    const [one, two] = [await apps.open(options), await apps.open(options)]
    await one.work({ capacity: 0 })
    const jobs = await one.submitMany(held, Array.from({ length: 2 * most + 1 }))
    await gate.arrived(most)
    expect((await one.why(jobs.at(-1)!.id)).reason).toBe(
      `every worker that runs task ${own} has as many jobs of lane ${own} as it may: ${perWorker || 'its number of cores'}`,
    )
    expect(gate.arrivals).toHaveLength(most)

    await two.work({ capacity: 0 })
    await gate.arrived(2 * most)
    expect((await one.listWorkers()).map((worker) => worker.running)).toEqual([most, most])
    gate.open()
    await Promise.all(jobs.map((job) => job.result()))
  })

  test('in lane default a worker without a capacity of its own runs as many jobs as it has cores', async () => {
    const gate = new Gate()
    const plain = task({ name: 'plain', run: () => gate.pass() })
    const app = await apps.open({ tasks: [plain] })
    await app.work({ capacity: 0 })
    const jobs = await app.submitMany(plain, Array.from({ length: availableParallelism() + 1 }))
    await gate.arrived(availableParallelism())

    expect(await app.getJob(jobs[0]!.id)).toMatchObject({ lane: 'default' })
    expect(gate.arrivals).toHaveLength(availableParallelism())
    gate.open()
    await Promise.all(jobs.map((job) => job.result()))
  })

  test.each([['default'], ['of-my-own']])(
    'a worker runs as many jobs of lane %s as its capacity says, however few cores it has',
    async (lane) => {
      const gate = new Gate()
      const capacity = 4 * availableParallelism() + 3
      const many = task({ name: `many-in-${lane}`, lane, run: () => gate.pass() })
      const app = await apps.open({ tasks: [many], lanes: { [lane]: {} } })
      await app.work({ capacity })
      const jobs = await app.submitMany(many, Array.from({ length: capacity + 1 }))
      await gate.arrived(capacity)

      const reason = `every worker that runs task ${many.name} is at capacity`
      await until(async () => (await app.why(jobs.at(-1)!.id)).reason === reason, 'the reason')
      expect(gate.arrivals).toHaveLength(capacity)
      gate.open()
      await Promise.all(jobs.map((job) => job.result()))
    },
  )

  test('a lane whose perWorker is cores keeps to them, whatever the capacity of a worker', async () => {
    const gate = new Gate()
    const cores = availableParallelism()
    const narrow = task({ name: 'by-cores', lane: 'by-cores', run: () => gate.pass() })
    const app = await apps.open({ tasks: [narrow], lanes: { 'by-cores': { perWorker: 0 } } })
    await app.work({ capacity: cores + 5 })
    const jobs = await app.submitMany(narrow, Array.from({ length: cores + 1 }))
    await gate.arrived(cores)

    const reason =
      'every worker that runs task by-cores has as many jobs of lane by-cores as it may: its number of cores'
    await until(async () => (await app.why(jobs.at(-1)!.id)).reason === reason, 'the reason')
    expect(gate.arrivals).toHaveLength(cores)
    gate.open()
    await Promise.all(jobs.map((job) => job.result()))
  })
})

test('free capacity rotates over lanes: none waits for another to be empty', async () => {
  const order: string[] = []
  const lanes = ['left', 'middle', 'right']
  const tasks = lanes.map((name) => task({ name, lane: name, run: () => void order.push(name) }))
  const app = await apps.open({
    tasks,
    lanes: Object.fromEntries(lanes.map((name) => [name, { slots: 5 }])),
  })
  for (const [i, each] of tasks.entries())
    await app.submitMany(each, Array.from({ length: 30 }), { priority: 10 - i })
  await app.work({ capacity: 1 })

  await until(() => order.length === 90, 'all to run')
  for (const name of lanes) {
    const place = order.indexOf(name)
    expect(place, `${name} first ran`).toBeLessThan(9)
    // Whatever the others have waiting, each gets its turns.
    expect(
      order.slice(0, 45).filter((each) => each === name).length,
      `${name} among the first 45`,
    ).toBeGreaterThan(9)
  }
})

test('a lane created while a worker runs is served without a restart', async () => {
  const roams = task({ name: 'roams', run: (n: number) => n })
  const app = await apps.open({ tasks: [roams] })
  await app.work()
  await app.submit(roams, 1).then((job) => job.result())

  const other = await apps.open({ tasks: [roams], lanes: { brandnew: { slots: 1 } } })
  const job = await other.submit(roams, 2, { lane: 'brandnew' })

  expect(await job.result()).toBe(2)
})
