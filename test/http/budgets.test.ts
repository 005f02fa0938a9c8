import { hostname } from 'node:os'
import { afterEach, beforeAll, describe, expect, test } from 'vitest'
import type { BudgetBody, BudgetsBody } from '../../src/api/budgets.ts'
import { model, outOfMemory, task } from '../../src/index.ts'
import { BUDGET_FIELDS } from '../../src/model/fields/budget.ts'
import { useDatabase } from '../support/database.ts'
import { Gate } from '../support/gate.ts'
import { useServer } from '../support/http-server.ts'
import { until, untilNoneLeft } from '../support/until.ts'

// A real worker in the process of the server, with declared devices: one of 24 GB and one of 8, and models that take no memory.

const GB = 1024 ** 3
const BIG = `${hostname()}/big`
const SMALL = `${hostname()}/small`

let gate = new Gate()
const pass = (name: string) => (n: number) => gate.pass(`${name}${n}`)
const llama = model({ name: 'llama', load: () => 'llama' })
const chat = task({ name: 'chat', model: llama, uses: { vram: '16GB' }, run: pass('chat') })
const draw = task({
  name: 'draw',
  model: 'flux',
  uses: { vram: '12GB' },
  perJob: { vram: '1GB' },
  run: pass('draw'),
})
const huge = task({ name: 'huge', uses: { vram: '20GB' }, run: () => 'ran' })
const scan = task({ name: 'scan', uses: { licences: 1 }, run: pass('scan') })
let tries = 0
const greedy = task({
  name: 'greedy',
  model: 'tiny',
  uses: { vram: '1GB' },
  run: () => {
    if (++tries === 1) throw outOfMemory({ needed: 2 * GB })
  },
})

const database = useDatabase()
const server = useServer(database, {
  tasks: [chat, draw, huge, scan, greedy],
  budgets: { vram: { big: '24GB', small: '8GB', safety: '1GB' }, licences: 2 },
  models: { llama: { load: '4s' }, tiny: { pinned: true } },
  lanes: { default: { perWorker: null, poll: 200 } },
})
let viewer = ''
let operator = ''

beforeAll(async () => {
  viewer = await server.keyOf('viewer', 'vera')
  operator = await server.keyOf('operator', 'olga')
  await server.app.work({ capacity: 0, name: 'w1' })
})

afterEach(async () => {
  gate.open()
  for (const name of ['vram', 'licences']) await server.app.resetBudget(name)
  await untilNoneLeft(
    async () => (await database.sql(`select 1 from sluice.jobs where state < 'completed'`)).length,
    'all jobs to end',
  )
  gate = new Gate()
})

async function view(): Promise<BudgetsBody> {
  const answer = await server.call('GET', '/admin/budgets', { key: viewer })
  expect(answer.status).toBe(200)
  return answer.json<BudgetsBody>()
}

/** A device of `vram`. */
async function device(key: string): Promise<BudgetBody['devices'][number]> {
  const { budgets } = await view()
  return budgets.find(({ name }) => name === 'vram')!.devices.find((each) => each.key === key)!
}

const change = (name: string, body: unknown, key = operator) =>
  server.call('PATCH', `/admin/budgets/${name}`, { key, body })

async function audited(action: string) {
  return database.sql<{ actor: string; target: string; before: unknown; after: unknown }>(
    'select actor, target, before, after from sluice.audit where action = $1 order by id',
    [action],
  )
}

describe('the view', () => {
  test('stands beside who runs what: the status has the budgets, and the slot of each job of a worker', async () => {
    const [first, second] = [await server.app.submit(scan, 1), await server.app.submit(scan, 2)]
    await gate.arrived(2)
    const answer = await server.call('GET', '/admin/workers/status', { key: viewer })
    const status = answer.json<{
      budgets: BudgetBody[]
      workers: { name: string; jobs: { id: string; slot: number; startedAt: string }[] }[]
    }>()
    expect(status.budgets).toEqual((await view()).budgets)
    expect(status.budgets.find(({ name }) => name === 'licences')).toMatchObject({
      devices: [{ held: 2, running: 2 }],
    })
    const { jobs } = status.workers.find(({ name }) => name === 'w1')!
    expect(jobs.map(({ slot }) => slot)).toEqual([1, 2])
    expect(jobs.map(({ id }) => id).sort()).toEqual([first.id, second.id].sort())
    expect(jobs[0]!.startedAt <= jobs[1]!.startedAt).toBe(true)
  })

  test('tells of devices, what is loaded, what waits, and what comes next and why', async () => {
    await server.app.submitMany(chat, [1, 2, 3])
    await gate.arrived(1)
    await server.app.submit(draw, 1)
    const seen = await until(async () => {
      const found = await view()
      const loaded = found.budgets.some(({ devices }) =>
        devices.some(({ copies }) => copies.some(({ state }) => state === 'loaded')),
      )
      return loaded && found.queues.length === 2 ? found : undefined
    }, 'the model to be loaded and the others to wait')

    const vram = seen.budgets.find(({ name }) => name === 'vram')!
    expect(vram).toMatchObject({
      kind: 'device',
      auto: false,
      bytes: true,
      safety: GB,
      quantum: BUDGET_FIELDS.quantum.default,
      maxWaitMs: BUDGET_FIELDS.maxWait.default,
    })
    const [big, small] = [BIG, SMALL].map((key) => vram.devices.find((each) => each.key === key)!)
    expect(big).toMatchObject({
      name: 'big',
      host: hostname(),
      total: 24 * GB,
      limit: null,
      capacity: 24 * GB,
      held: 16 * GB,
      heldByModels: 16 * GB,
      running: 1,
      measuredAt: null,
      lostAt: null,
      outOfMemory: 0,
      workers: ['w1'],
      copies: [
        {
          model: 'llama',
          worker: 'w1',
          amount: 16 * GB,
          devices: [BIG],
          state: 'loaded',
          since: expect.any(String),
          running: 1,
          pinned: false,
        },
      ],
    })
    expect(small).toMatchObject({ held: 0, room: 8 * GB, copies: [], next: [] })
    // Jobs of the loaded model come first; the other waits for its turn.
    expect(big!.next.map(({ task: name, model: of, why }) => [name, of, why])).toEqual([
      ['chat', 'llama', 'parallel'],
      ['draw', 'flux', 'held'],
    ])
    expect(big!.next[1]!.reason).toMatch(
      /^flux needs 13GB of vram on \S+, where 8GB is free; llama holds the rest/,
    )
    expect(Date.parse(big!.next[1]!.until!)).toBeGreaterThan(Date.now())

    expect(seen.models.find(({ name }) => name === 'llama')).toMatchObject({
      copies: 1,
      running: 1,
      depth: 2,
      loads: 1,
      oldestAt: expect.any(String),
      pinned: false,
    })
    expect(seen.models.find(({ name }) => name === 'flux')).toMatchObject({ copies: 0, depth: 1, loads: 0 })
    expect(seen.queues.find(({ task: name }) => name === 'draw')).toMatchObject({
      lane: 'default',
      model: 'flux',
      depth: 1,
      why: 'held',
      reason: big!.next[1]!.reason,
      need: 13 * GB,
      heldBy: ['llama'],
    })
  })

  test('counts loads, and what strict order would have swapped for', async () => {
    const sums = async () => {
      const { models } = await view()
      const own = models.filter(({ name }) => name === 'llama' || name === 'flux')
      const sum = (of: (model: (typeof own)[number]) => number) =>
        own.reduce((all, each) => all + of(each), 0)
      return { loads: sum((each) => each.loads), avoided: sum((each) => each.swapsAvoided) }
    }
    await server.app.stopWorking()
    const before = await sums()
    gate.open()
    const jobs = []
    for (const n of [1, 2, 3]) jobs.push(await server.app.submit(chat, n), await server.app.submit(draw, n))
    await server.app.work({ capacity: 0, name: 'w1' })
    await Promise.all(jobs.map((job) => job.result()))
    // Strict order would load six times: dispatch serves three of one model, then three of the other.
    const after = await until(async () => {
      const found = await sums()
      return found.loads === before.loads + 2 ? found : undefined
    }, 'both loads to be told')
    expect(after.avoided - before.avoided).toBe(2)
  })

  test('tells who waits for a budget that has no devices', async () => {
    await server.app.submitMany(scan, [1, 2, 3])
    await gate.arrived(2)
    const licences = await until(async () => {
      const found = (await view()).budgets.find(({ name }) => name === 'licences')!
      return found.devices[0]!.next.length === 1 ? found : undefined
    }, 'the third to wait')
    expect(licences).toMatchObject({ kind: 'shared', capacity: 2, bytes: false })
    expect(licences.devices).toHaveLength(1)
    expect(licences.devices[0]).toMatchObject({
      key: '',
      capacity: 2,
      held: 2,
      heldByModels: 0,
      running: 2,
      next: [
        {
          task: 'scan',
          model: null,
          why: 'shared-full',
          reason: 'budget licences is used up; it needs 1',
          until: null,
        },
      ],
    })
  })

  test('tells of tasks that no worker runs', async () => {
    await server.app.stopWorking()
    await server.app.submit(scan, 1)
    expect((await view()).queues).toMatchObject([
      { task: 'scan', why: 'no-worker', reason: 'no live worker runs task scan' },
    ])
    await server.app.work({ capacity: 0, name: 'w1' })
  })

  test('shows one budget, and which there are when it is not among them', async () => {
    const answer = await server.call('GET', '/admin/budgets/licences', { key: viewer })
    expect([answer.status, answer.json<BudgetBody>().name]).toEqual([200, 'licences'])
    const missing = await server.call('GET', '/admin/budgets/licenses', { key: viewer })
    expect([missing.status, missing.json()]).toEqual([
      404,
      expect.objectContaining({
        code: 'BUDGET_NOT_FOUND',
        detail: 'budget "licenses" does not exist; existing budgets: licences, vram',
      }),
    ])
  })
})

describe('a change', () => {
  test('holds at once, stops nothing, is in the audit, and is undone by a reset', async () => {
    await server.app.submitMany(scan, [1, 2, 3, 4])
    await gate.arrived(2)
    const less = await change('licences', { capacity: 1 })
    expect([less.status, less.json<BudgetBody>().capacity]).toEqual([200, 1])
    expect(less.json<BudgetBody>().devices[0]).toMatchObject({ held: 2, capacity: 1, room: 0 })
    const more = await change('licences', { capacity: 3, maxWait: '30s', quantum: 2.5 })
    expect(more.json()).toMatchObject({
      capacity: 3,
      maxWaitMs: 30_000,
      quantum: 2.5,
      operatorSet: ['capacity', 'maxWaitMs', 'quantum'],
      updatedBy: 'olga',
    })
    await gate.arrived(3)
    expect((await audited('budget.change')).at(-1)).toMatchObject({
      actor: 'olga',
      target: 'budget licences',
      before: {
        capacity: 1,
        maxWaitMs: BUDGET_FIELDS.maxWait.default,
        quantum: BUDGET_FIELDS.quantum.default,
        limits: {},
      },
      after: { capacity: 3, maxWaitMs: 30_000, quantum: 2.5 },
    })
    const reset = await server.call('POST', '/admin/budgets/licences/reset', { key: operator })
    expect(reset.json()).toMatchObject({
      capacity: 2,
      maxWaitMs: BUDGET_FIELDS.maxWait.default,
      quantum: BUDGET_FIELDS.quantum.default,
      operatorSet: [],
    })
    expect((await audited('budget.reset')).at(-1)).toMatchObject({
      target: 'budget licences',
      before: { capacity: 3 },
      after: { capacity: 2 },
    })
  })

  test('limits a device, by key or by name; what is larger waits and says so', async () => {
    const limited = await change('vram', { limits: { big: '10GB' }, safety: 0 })
    expect([limited.status, limited.json<BudgetBody>().operatorSet]).toEqual([200, ['safety', 'limits']])
    expect(await device(BIG)).toMatchObject({ total: 24 * GB, limit: 10 * GB, capacity: 10 * GB })
    const job = await server.app.submit(huge, undefined)
    expect((await view()).queues).toMatchObject([
      {
        task: 'huge',
        model: null,
        why: 'too-big',
        reason: `task huge needs 20GB of vram on one device; an operator's limit holds ${BIG}, the largest that a worker offers, at 10GB`,
      },
    ])
    await change('vram', { limits: { [BIG]: null } })
    expect(await device(BIG)).toMatchObject({ limit: null, capacity: 24 * GB })
    expect((await audited('budget.change')).at(-1)).toMatchObject({
      before: { limits: { [BIG]: 10 * GB } },
      after: { limits: {} },
    })
    expect(await job.result()).toBe('ran')
  })

  test.each<[string, string, unknown, number, string, string]>([
    [
      'of a budget that is not there',
      'seats',
      { capacity: 1 },
      404,
      'BUDGET_NOT_FOUND',
      'existing budgets: licences, vram',
    ],
    ['of nothing', 'licences', {}, 400, 'INVALID_ARGUMENT', ''],
    ['of something unknown', 'licences', { capacitty: 3 }, 400, 'INVALID_ARGUMENT', 'capacitty'],
    ['to less than nothing', 'licences', { capacity: -1 }, 400, 'INVALID_ARGUMENT', 'capacity'],
    [
      'to no amount',
      'licences',
      { capacity: 'lots' },
      400,
      'INVALID_ARGUMENT',
      'capacity: "lots" must be a number',
    ],
    ['to no duration', 'licences', { maxWait: 'long' }, 400, 'INVALID_ARGUMENT', 'maxWait'],
    [
      'of the whole where there are devices',
      'vram',
      { capacity: '9GB' },
      400,
      'INVALID_ARGUMENT',
      'capacity: budget vram is counted per device; set limits',
    ],
    [
      'of devices where there are none',
      'licences',
      { limits: { a: 1 } },
      400,
      'INVALID_ARGUMENT',
      'limits: budget licences has no devices; set capacity',
    ],
    [
      'of a device that is not there',
      'vram',
      { limits: { gpu9: 1 } },
      400,
      'INVALID_ARGUMENT',
      `${BIG}, ${SMALL}`,
    ],
    ['of a device to no amount', 'vram', { limits: { big: 'x' } }, 400, 'INVALID_ARGUMENT', 'limits.big'],
    [
      'of a device to more than it has',
      'vram',
      { limits: { [BIG]: '25GB' } },
      400,
      'INVALID_ARGUMENT',
      `limits.${BIG}: 25GB is more than the 24GB that ${BIG} has: use at most 24GB`,
    ],
    ['of limits that are a list', 'vram', { limits: [1] }, 400, 'INVALID_ARGUMENT', 'limits'],
  ])('%s is refused, and changes nothing', async (_, name, body, status, code, detail) => {
    const settings = async () => await database.sql('select * from sluice.budgets order by name')
    const before = await settings()
    const answer = await change(name, body)
    expect([answer.status, answer.json()]).toEqual([
      status,
      expect.objectContaining({ code, detail: expect.stringContaining(detail) }),
    ])
    expect(await settings()).toEqual(before)
  })

  test('needs workers:manage', async () => {
    expect((await change('licences', { capacity: 9 }, viewer)).status).toBe(403)
    expect((await server.call('POST', '/admin/budgets/licences/reset', { key: viewer })).status).toBe(403)
    expect((await server.call('GET', '/admin/budgets')).status).toBe(401)
  })
})

test('metrics tell what is held, what there is, how models fare and who ran out of memory', async () => {
  const job = await server.app.submit(greedy, undefined)
  await job.result()
  await server.app.submitMany(scan, [1])
  await gate.arrived(1)
  const text = await until(async () => {
    const found = (await server.at('GET', '/metrics')).text
    return found.includes('sluice_budget_held{budget="licences",device=""} 1') ? found : undefined
  }, 'the metrics to be read anew')
  for (const line of [
    'sluice_budget_capacity{budget="licences",device=""} 2',
    `sluice_budget_capacity{budget="vram",device="${BIG}"} ${24 * GB}`,
    `sluice_device_lost{budget="vram",device="${SMALL}"} 0`,
    'sluice_model_out_of_memory_total{model="tiny"} 1',
    'sluice_model_loads_total{model="tiny"}',
    'sluice_model_depth{model="llama"} 0',
    'sluice_model_load_time_seconds{model="llama"}',
    '# TYPE sluice_model_loads_total counter',
  ])
    expect(text).toContain(line)
  const short = [...text.matchAll(/^sluice_device_out_of_memory_total\{.*\} (\d+)$/gm)].map(([, n]) =>
    Number(n),
  )
  expect(short.reduce((sum, n) => sum + n, 0)).toBe(1)
})
