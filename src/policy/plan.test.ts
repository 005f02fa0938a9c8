import { expect, test } from 'vitest'
import { plan } from './plan.ts'
import type { PlanInput, QueueView, ResidentView } from './plan-input.ts'

const NOW = 1_000_000
const RULES = { quantum: 9, maxWaitMs: 120_000 }

function input(
  given: Partial<PlanInput> & { gpus?: Record<string, [capacity: number, room: number]> },
): PlanInput {
  const { gpus = { a: [24, 24] }, ...rest } = given
  return {
    now: NOW,
    free: 100,
    devices: Object.entries(gpus).map(([key, [capacity, room]]) => ({ key, budget: 'vram', capacity, room })),
    shared: new Map(),
    residents: [],
    queues: [],
    models: new Map(
      ['A', 'B', 'C', 'D'].map((name) => [name, { loadMs: 10_000, runMs: 4_000, restMs: null }]),
    ),
    rules: new Map([['vram', RULES]]),
    ...rest,
  }
}

let lastClass = 0

function queue(
  model: string | null,
  given: Partial<QueueView> & { gb?: number; devices?: number; priority?: number; waitedMs?: number } = {},
): QueueView {
  const { gb = 20, devices = 1, priority = 0, waitedMs = 1000, ...rest } = given
  lastClass += 1
  return {
    classId: lastClass,
    task: `task ${lastClass}`,
    model,
    depth: 10,
    head: { priority, waitingSince: NOW - waitedMs, uses: null },
    parallel: 1,
    uses: [{ budget: 'vram', devices, each: gb }],
    perJob: [],
    most: 100,
    ...rest,
  }
}

function resident(
  model: string,
  device: string,
  given: Partial<ResidentView> & { gb?: number } = {},
): ResidentView {
  const { gb = 20, ...rest } = given
  return {
    id: `${model}@${device}`,
    model,
    shares: [{ budget: 'vram', device, amount: gb }],
    mine: true,
    loadedAt: NOW - 30_000,
    unloading: false,
    running: 0,
    idleSince: NOW,
    pinned: false,
    ...rest,
  }
}

const busy = { running: 1, idleSince: null }
/** Longer than the quantum of 9 times 10 s. */
const served = { loadedAt: NOW - 91_000 }

function started(given: PlanInput): string[] {
  return plan(given).starts.map(
    ({ model, count, deviceUses, newResident }) =>
      `${newResident ? 'load ' : ''}${model ?? 'job'} x${count} on ${deviceUses.map(({ device }) => device).join('+')}`,
  )
}

function unloaded(given: PlanInput): string[] {
  return plan(given).unloads.map(({ resident, inFavourOf }) => `${resident} for ${inFavourOf}`)
}

function whyOf(given: PlanInput, { classId }: QueueView) {
  return plan(given).verdicts.find((verdict) => verdict.classId === classId)?.why
}

test('a model is loaded for the job that needs it, with its memory charged once', () => {
  const given = input({
    queues: [queue('A', { parallel: 3, perJob: [{ budget: 'vram', devices: 1, each: 1 }] })],
  })

  expect(plan(given).starts).toEqual([
    {
      classId: given.queues[0]!.classId,
      count: 3,
      model: 'A',
      deviceUses: [{ budget: 'vram', device: 'a', resident: 20, perJob: 1 }],
      newResident: true,
    },
  ])
})

test('loads the deepest of several waiting models, and tells the others what blocks them', () => {
  const [few, many] = [queue('A', { depth: 3 }), queue('B', { depth: 30 })]
  const given = input({ queues: [few, many] })

  expect(started(given)).toEqual(['load B x1 on a'])
  expect(whyOf(given, few)).toMatchObject({ kind: 'held', device: 'a', by: ['B'] })
})

test('higher priority goes before depth and before a longer wait', () => {
  const queues = [queue('A', { depth: 500, waitedMs: 500_000 }), queue('B', { depth: 1, priority: 1 })]

  expect(started(input({ queues }))).toEqual(['load B x1 on a'])
})

test('a loaded model goes on while it has work, however deep other queues are', () => {
  const given = input({
    gpus: { a: [24, 4] },
    residents: [resident('A', 'a')],
    queues: [queue('A', { depth: 1 }), queue('B', { depth: 900, waitedMs: 100_000 })],
  })

  expect(started(given)).toEqual(['A x1 on a'])
  expect(unloaded(given)).toEqual([])
})

test('a model over the maximum wait takes the place one quantum later, at once when the model there runs out of jobs', () => {
  const waiting = (waitedMs: number, { own = 10, quantum = 9, loadedAt = NOW - 300_000 } = {}) =>
    input({
      gpus: { a: [24, 4] },
      residents: [resident('A', 'a', { loadedAt })],
      queues: [queue('A', { depth: own }), queue('B', { waitedMs })],
      rules: new Map([['vram', { ...RULES, quantum }]]),
    })

  expect(started(waiting(209_000)), '120 s and a quantum of 90').toEqual(['A x1 on a'])
  expect(plan(waiting(209_000)).lookAgainMs).toBe(1000)
  expect(started(waiting(211_000))).toEqual([])
  expect(unloaded(waiting(211_000))).toEqual(['A@a for B'])
  expect(unloaded(waiting(1000, { own: 0 }))).toEqual(['A@a for B'])
  expect(unloaded(waiting(211_000, { loadedAt: NOW - 80_000 })), 'it has not had its turn').toEqual([])
  // However long a quantum is, a model that is due waits for one maximum wait more at most.
  expect(unloaded(waiting(239_000, { quantum: 25 }))).toEqual([])
  expect(unloaded(waiting(241_000, { quantum: 25 }))).toEqual(['A@a for B'])
})

test('nothing is unloaded for a model that would not come first after it: the place would go straight back', () => {
  const [own, other] = [queue('A', { depth: 9, waitedMs: 230_000 }), queue('B', { waitedMs: 211_000 })]
  const copy = resident('A', 'a', { loadedAt: NOW - 240_000 })
  const given = (mine: QueueView, loaded: ResidentView) =>
    input({ gpus: { a: [24, 4] }, residents: [loaded], queues: [mine, other] })

  expect(started(given(own, copy))).toEqual(['A x1 on a'])
  expect(unloaded(given(own, copy))).toEqual([])
  // It looks again when the next job of the one that is loaded may have come to its end.
  expect(plan(given(own, copy)).lookAgainMs).toBe(4000)
  const younger = queue('A', { depth: 9, waitedMs: 200_000 })
  expect(unloaded(given(younger, copy))).toEqual(['A@a for B'])
})

test('a copy that stays idle though older jobs wait for it gives way: something else keeps those', () => {
  const [own, other] = [queue('A', { depth: 9, waitedMs: 140_000 }), queue('B', { waitedMs: 121_000 })]
  const idleFor = (ms: number) =>
    unloaded(
      input({
        gpus: { a: [24, 4] },
        residents: [resident('A', 'a', { loadedAt: NOW - 150_000, idleSince: NOW - ms })],
        queues: [own, other],
      }),
    )

  expect(idleFor(9_000)).toEqual([])
  expect(idleFor(11_000)).toEqual(['A@a for B'])
})

test('of two that have waited long, the one that is done sooner goes first, unless the other is older by its turn', () => {
  const few = queue('B', { depth: 1, waitedMs: 80_000 })
  const many = (waitedMs: number) => queue('A', { depth: 100, waitedMs })

  // A turn is 90 s, of which 30 do not count: what is short enough is not told apart.
  expect(started(input({ queues: [many(130_000), few] }))).toEqual(['load B x1 on a'])
  expect(started(input({ queues: [many(150_000), few] }))).toEqual(['load A x1 on a'])
  expect(started(input({ queues: [queue('A', { depth: 7, waitedMs: 81_000 }), few] }))).toEqual([
    'load A x1 on a',
  ])
})

test('before the quantum is over it does not, and the plan says when to look again', () => {
  const [own, other] = [queue('A'), queue('B', { waitedMs: 121_000 })]
  const given = input({ gpus: { a: [24, 4] }, residents: [resident('A', 'a')], queues: [own, other] })

  expect(started(given)).toEqual(['A x1 on a'])
  expect(unloaded(given)).toEqual([])
  expect(plan(given).lookAgainMs).toBe(60_000)
  // Ten jobs of 4 s are sooner over than the turn, and then it is loaded.
  expect(whyOf(given, other)).toMatchObject({ kind: 'held', by: ['A'], until: NOW + 50_000 })
})

test('a busy model that has to go gets no more jobs, and is unloaded once it is idle', () => {
  const queues = [queue('A'), queue('B', { waitedMs: 211_000 })]
  const given = input({
    gpus: { a: [24, 4] },
    residents: [resident('A', 'a', { ...served, ...busy })],
    queues,
  })

  expect(started(given)).toEqual([])
  expect(unloaded(given)).toEqual([])
  expect(whyOf(given, queues[1]!)).toEqual({ kind: 'next', budget: 'vram', device: 'a', by: ['A'] })
})

test('a model whose oldest job had waited long when it was loaded may serve that long', () => {
  const backlog = queue('A', { waitedMs: 600_000 })
  const queues = [backlog, queue('B', { waitedMs: 600_000 })]
  const after = (ms: number) =>
    input({ gpus: { a: [24, 4] }, residents: [resident('A', 'a', { loadedAt: NOW - ms })], queues })

  expect(started(after(200_000))).toEqual(['A x1 on a'])
  expect(unloaded(after(300_000)), 'it had waited 300 s then').toEqual(['A@a for B'])
})

test('a higher priority takes the place after one quantum, at once when the model runs out of jobs, and a lower one never', () => {
  const waiting = (priority: number, waitedMs: number, own = 10) =>
    input({
      gpus: { a: [24, 4] },
      residents: [resident('A', 'a', { loadedAt: NOW - 600_000 })],
      queues: [queue('A', { depth: own }), queue('B', { priority, waitedMs })],
    })

  expect(started(waiting(1, 89_000)), 'a quantum is 90 s').toEqual(['A x1 on a'])
  expect(plan(waiting(1, 89_000)).lookAgainMs).toBe(1000)
  expect(unloaded(waiting(1, 91_000))).toEqual(['A@a for B'])
  expect(unloaded(waiting(1, 1000, 0))).toEqual(['A@a for B'])
  const justLoaded = [resident('A', 'a', { loadedAt: NOW - 30_000 })]
  expect(unloaded({ ...waiting(1, 91_000), residents: justLoaded }), 'it has not had its turn').toEqual([])
  expect(unloaded(waiting(-1, 900_000))).toEqual([])
})

test('kept room is lent to a small model whose turn ends before the room can be taken', () => {
  const big = queue('B', { gb: 22, waitedMs: 220_000 })
  const small = queue('C', { gb: 6, depth: 3 })
  const given = (loadMs: number) =>
    input({
      gpus: { a: [24, 18] },
      residents: [resident('A', 'a', { gb: 6, ...busy })],
      queues: [queue('A', { gb: 6 }), big, small],
      models: new Map([
        ['A', { loadMs: 10_000, runMs: 4_000, restMs: null }],
        ['B', { loadMs: 10_000, runMs: 4_000, restMs: null }],
        ['C', { loadMs, runMs: 1_000, restMs: null }],
      ]),
    })

  // The turn of A ends in 60 s. One of C takes ten loads and a job.
  expect(started(given(5_000))).toEqual(['load C x1 on a'])
  expect(started(given(6_000))).toEqual([])
  expect(whyOf(given(6_000), small)).toEqual({ kind: 'behind', model: 'B', device: 'a' })
})

test('models with short jobs continue beside a long job that blocks another', () => {
  const given = (shortMs: number) =>
    input({
      gpus: { a: [24, 6] },
      residents: [
        resident('A', 'a', { gb: 12, ...served, ...busy }),
        resident('C', 'a', { gb: 6, ...served }),
      ],
      queues: [queue('B', { gb: 22, waitedMs: 220_000 }), queue('C', { gb: 6 })],
      models: new Map([
        ['A', { loadMs: 10_000, runMs: 300_000, restMs: null }],
        ['B', { loadMs: 10_000, runMs: 4_000, restMs: null }],
        ['C', { loadMs: 10_000, runMs: shortMs, restMs: null }],
      ]),
    })

  expect(started(given(4_000))).toEqual(['C x1 on a'])
  expect(started(given(400_000))).toEqual([])
})

test('of idle models the one that is wanted last goes, by how long each usually rests', () => {
  const residents = [
    resident('A', 'a', { gb: 12, idleSince: NOW - 50_000 }),
    resident('B', 'a', { gb: 12, idleSince: NOW - 10_000 }),
  ]
  const given = (restMs: number | null) =>
    input({
      gpus: { a: [24, 0] },
      residents,
      models: new Map(['A', 'B', 'D'].map((name) => [name, { loadMs: 10_000, runMs: 4_000, restMs }])),
      queues: [queue('D', { gb: 12 })],
    })

  expect(unloaded(given(60_000)), 'A is wanted in 10 s, B in 50').toEqual(['B@a for D'])
  expect(unloaded(given(null)), 'nothing is known but who was used last').toEqual(['A@a for D'])
  expect(unloaded(given(5_000)), 'A has been idle for ten times its rest').toEqual(['A@a for D'])
})

test('a pinned model is never unloaded', () => {
  const given = input({
    gpus: { a: [24, 4] },
    residents: [resident('A', 'a', { ...served, pinned: true, idleSince: 0 })],
    queues: [queue('B', { priority: 9, waitedMs: 900_000 })],
  })

  expect(plan(given)).toMatchObject({ starts: [], unloads: [] })
})

test('a warm copy is preferred to a load, and jobs join it up to its parallel', () => {
  const given = input({
    gpus: { a: [24, 4], b: [24, 24] },
    residents: [resident('A', 'a', busy)],
    queues: [queue('A', { depth: 2, parallel: 4 })],
  })

  expect(started(given)).toEqual(['A x2 on a'])
})

test('a second copy is loaded when the queue takes longer than three loads, not before', () => {
  const given = (depth: number) =>
    input({
      gpus: { a: [24, 4], b: [24, 24] },
      residents: [resident('A', 'a', busy)],
      queues: [queue('A', { depth })],
    })

  expect(started(given(7)), '7 x 4 s').toEqual([])
  expect(started(given(8)), '8 x 4 s').toEqual(['load A x1 on b'])
})

test('another model goes for a second copy when the queue also takes a quantum of its reload, the less the longer it is idle', () => {
  const given = (depth: number, idleMs: number) =>
    unloaded(
      input({
        gpus: { a: [24, 4], b: [24, 4] },
        residents: [resident('A', 'a', busy), resident('B', 'b', { idleSince: NOW - idleMs })],
        queues: [queue('A', { depth })],
      }),
    )

  expect(given(29, 0), '116 s of work').toEqual([])
  expect(given(31, 0), 'three loads, and nine times 10 s').toEqual(['B@b for A'])
  expect(given(12, 3_600_000), 'nobody has wanted B for an hour').toEqual(['B@b for A'])
})

test('nothing is loaded here while another worker has it warm and will be sooner', () => {
  const elsewhere = resident('A', 'far', { mine: false, ...busy })
  const few = queue('A', { depth: 2 })

  expect(started(input({ residents: [elsewhere], queues: [few] }))).toEqual([])
  expect(whyOf(input({ residents: [elsewhere], queues: [few] }), few)).toMatchObject({
    kind: 'warm-elsewhere',
  })
  expect(started(input({ residents: [elsewhere], queues: [queue('A', { depth: 30 })] }))).toEqual([
    'load A x1 on a',
  ])
})

test('an idle copy elsewhere that takes no jobs holds nobody back for longer than a load', () => {
  const elsewhere = resident('A', 'far', { mine: false, idleSince: NOW - 60_000 })

  expect(
    started(input({ residents: [elsewhere], queues: [queue('A', { depth: 1, waitedMs: 9_000 })] })),
  ).toEqual([])
  expect(
    started(input({ residents: [elsewhere], queues: [queue('A', { depth: 1, waitedMs: 11_000 })] })),
  ).toEqual(['load A x1 on a'])
})

test('a further copy gives way to a model that has none, once it has served for three of its loads', () => {
  const given = (loadedAgo: number) =>
    input({
      gpus: { a: [24, 4], b: [24, 4] },
      residents: [
        resident('A', 'a', { ...served, ...busy }),
        resident('A', 'b', { loadedAt: NOW - loadedAgo }),
      ],
      queues: [queue('A'), queue('B', { waitedMs: 5_000 })],
    })

  expect(unloaded(given(29_000))).toEqual([])
  expect(unloaded(given(31_000))).toEqual(['A@b for B'])
})

test('models are loaded on several devices at once', () => {
  const queues = [queue('A'), queue('B'), queue('C')]

  expect(started(input({ gpus: { a: [24, 24], b: [24, 24], c: [24, 24] }, queues })).sort()).toEqual([
    'load A x1 on a',
    'load B x1 on b',
    'load C x1 on c',
  ])
})

test('a model goes where it leaves the smallest hole, so that large models still fit', () => {
  const gpus = { a: [48, 48], b: [24, 10], c: [24, 16] } satisfies Record<string, [number, number]>

  expect(started(input({ gpus, queues: [queue('A', { gb: 9, depth: 1 })] }))).toEqual(['load A x1 on b'])
  expect(started(input({ gpus, queues: [queue('A', { gb: 12, depth: 1 })] }))).toEqual(['load A x1 on c'])
})

test('a model on two devices needs its share on each of them, not their sum', () => {
  const wide = queue('A', { devices: 2, gb: 20 })

  expect(started(input({ gpus: { a: [24, 24], b: [24, 12], c: [24, 22] }, queues: [wide] }))).toEqual([
    'load A x1 on c+a',
  ])
  expect(started(input({ gpus: { a: [24, 24], b: [24, 12] }, queues: [wide] }))).toEqual([])
  expect(whyOf(input({ gpus: { a: [96, 96] }, queues: [wide] }), wide)).toEqual({
    kind: 'too-big',
    budget: 'vram',
    need: 20,
    devices: 2,
    largest: 96,
    offered: 1,
  })
})

test('the idle models that are cheapest to have back go, and no more of them than needed', () => {
  const residents = [
    resident('A', 'a', { gb: 8, idleSince: NOW - 1000 }),
    resident('B', 'a', { gb: 8, idleSince: NOW - 900_000 }),
    resident('C', 'a', { gb: 8, idleSince: NOW - 500_000 }),
  ]

  expect(unloaded(input({ gpus: { a: [24, 0] }, residents, queues: [queue('D', { gb: 8 })] }))).toEqual([
    'B@a for D',
  ])
  expect(unloaded(input({ gpus: { a: [24, 0] }, residents, queues: [queue('D', { gb: 16 })] }))).toEqual([
    'B@a for D',
    'C@a for D',
  ])
})

test('how soon an idle model counts as cheap to have back is measured in quanta of its budget', () => {
  const given = (quantum: number) =>
    input({
      gpus: { a: [24, 0] },
      residents: [
        resident('A', 'a', { gb: 12, idleSince: NOW - 30_000 }),
        resident('B', 'a', { gb: 12, idleSince: NOW - 1000 }),
      ],
      models: new Map([
        ['A', { loadMs: 10_000, runMs: 4_000, restMs: null }],
        ['B', { loadMs: 6_000, runMs: 4_000, restMs: null }],
      ]),
      rules: new Map([['vram', { ...RULES, quantum }]]),
      queues: [queue('D', { gb: 12 })],
    })

  expect(unloaded(given(9)), '30 s are a third of a quantum').toEqual(['B@a for D'])
  expect(unloaded(given(1)), 'and three quanta').toEqual(['A@a for D'])
})

test('memory that is still being freed is waited for, and no other model has to go', () => {
  const given = input({
    gpus: { a: [24, 4], b: [24, 4] },
    residents: [resident('A', 'a', { unloading: true }), resident('B', 'b')],
    queues: [queue('C')],
  })

  expect(plan(given)).toMatchObject({ starts: [], unloads: [] })
})

test('reserves room for a large model that is due, so that small ones do not block it in turn', () => {
  const small = queue('C', { gb: 6, depth: 1 })
  const big = queue('B', { gb: 22, waitedMs: 130_000 })
  const residents = [resident('A', 'a', { gb: 6, ...busy })]
  const given = input({ gpus: { a: [24, 18] }, residents, queues: [queue('A', { gb: 6 }), big, small] })

  expect(started(given), 'A still has its quantum; C would fit').toEqual([])
  expect(whyOf(given, small)).toEqual({ kind: 'behind', model: 'B', device: 'a' })
  expect(started({ ...given, queues: [small] })).toEqual(['load C x1 on a'])
})

test('jobs without a model take their share of devices and of shared budgets, all or nothing', () => {
  const uses = [
    { budget: 'vram', devices: 1, each: 5 },
    { budget: 'licences', devices: 1, each: 1 },
  ]
  const given = input({ shared: new Map([['licences', 3]]), queues: [queue(null, { uses })] })

  expect(started(given)).toEqual(['job x3 on a'])
  expect(whyOf(given, given.queues[0]!)).toEqual({
    kind: 'shared-full',
    budget: 'licences',
    need: 1,
    room: 0,
  })
})

test('a model is not loaded for a job that lacks a shared budget', () => {
  const uses = [...queue('A').uses, { budget: 'licences', devices: 1, each: 2 }]

  expect(started(input({ shared: new Map([['licences', 1]]), queues: [queue('A', { uses })] }))).toEqual([])
})

test('what a job takes of a shared budget by its task and by its model is added up', () => {
  const ask = (each: number) => ({ budget: 'licences', devices: 1, each })
  const uses = [...queue('A').uses, ask(2)]

  expect(
    started(input({ shared: new Map([['licences', 2]]), queues: [queue('A', { uses, perJob: [ask(1)] })] })),
  ).toEqual([])
})

test('without a model, what each job adds counts with what it uses, as the claim will', () => {
  const ask = (budget: string, each: number) => ({ budget, devices: 1, each })
  const perJob = [ask('vram', 3), ask('licences', 1)]
  const jobs = queue(null, { uses: [ask('vram', 5), ask('licences', 1)], perJob })
  const given = (licences: number) => input({ shared: new Map([['licences', licences]]), queues: [jobs] })

  expect(plan(given(100)).starts).toMatchObject([
    { count: 3, deviceUses: [{ budget: 'vram', device: 'a', resident: 0, perJob: 8 }] },
  ])
  expect(started(given(1))).toEqual([])
})

test('an idle model goes when a job of another, loaded beside it, has no room', () => {
  const perJob = [{ budget: 'vram', devices: 1, each: 2 }]
  const residents = [resident('A', 'a', { gb: 16 }), resident('B', 'a', { gb: 7, idleSince: NOW - 1000 })]
  const given = input({ gpus: { a: [24, 1] }, residents, queues: [queue('A', { gb: 16, perJob })] })

  expect(started(given)).toEqual([])
  expect(unloaded(given)).toEqual(['B@a for A'])
})

test('classes of one model take turns behind their heads, and a lower priority comes last', () => {
  const classes = [
    queue('A', { parallel: 5, waitedMs: 3000, depth: 9 }),
    queue('A', { parallel: 5, waitedMs: 9000, depth: 2 }),
    queue('A', { parallel: 5, waitedMs: 99_000, depth: 9, priority: -1 }),
  ]
  const counts = plan(input({ queues: classes })).starts.map(({ classId, count }) => [classId, count])

  expect(counts).toEqual([
    [classes[1]!.classId, 2],
    [classes[0]!.classId, 3],
  ])
})

test('distinguishes a full lane from a full worker', () => {
  const [blocked, open] = [queue('A', { most: 0 }), queue('B')]

  expect(whyOf(input({ queues: [blocked, open] }), blocked)).toEqual({ kind: 'lane-full' })
  expect(started(input({ queues: [blocked, open] }))).toEqual(['load B x1 on a'])
  expect(whyOf(input({ free: 0, queues: [open] }), open)).toEqual({ kind: 'no-capacity' })
})

test('without limits everything is loaded and one copy is enough', () => {
  const devices = [{ key: 'cpu', budget: 'vram', capacity: null, room: null }]

  expect(started(input({ devices, queues: [queue('A', { depth: 900 }), queue('B')] })).sort()).toEqual([
    'load A x1 on cpu',
    'load B x1 on cpu',
  ])
})

test('a copy on a device that is no longer offered gets no jobs', () => {
  const given = input({
    gpus: { b: [24, 24] },
    residents: [resident('A', 'a')],
    queues: [queue('A', { depth: 1 })],
  })

  expect(started(given)).toEqual(['load A x1 on b'])
})

test('room that is kept for a model which waits for the turn of another does not keep that one from its jobs', () => {
  const ask = (each: number) => [{ budget: 'vram', devices: 1, each }]
  const queue = (classId: number, name: string, memory: number, waitingSince: number) => ({
    classId,
    task: name,
    model: name,
    depth: 1,
    head: { priority: 0, waitingSince, uses: null },
    parallel: 1,
    uses: ask(memory),
    perJob: ask(1),
    most: 100,
  })
  const { starts } = plan({
    now: 1_000_000,
    free: 10,
    devices: [{ key: 'gpu0', budget: 'vram', capacity: 36, room: 18 }],
    shared: new Map(),
    residents: [
      {
        id: '0',
        model: 'loaded',
        shares: [{ budget: 'vram', device: 'gpu0', amount: 18 }],
        mine: true,
        loadedAt: 999_000,
        unloading: false,
        running: 0,
        idleSince: 999_500,
        pinned: false,
      },
    ],
    queues: [queue(1, 'loaded', 18, 2000), queue(2, 'due', 20, 1000)],
    models: new Map(),
    rules: new Map([['vram', RULES]]),
  })
  expect(starts.map(({ classId }) => classId)).toEqual([1])
})

test('a device that was made too small for what lies on it is relieved: no more jobs, and what is idle goes', () => {
  const small = (...residents: ResidentView[]) =>
    plan(
      input({
        devices: [{ key: 'a', budget: 'vram', capacity: 16, room: 0, over: 10 }],
        residents,
        queues: [queue('A', { gb: 14 }), queue('B', { gb: 12 })],
      }),
    )
  const idle = small(resident('A', 'a', { gb: 14 }), resident('B', 'a', { gb: 12 }))
  // One of the two is enough: the other goes on.
  expect(idle.unloads).toHaveLength(1)
  expect(idle.starts.map(({ model }) => model)).toEqual([idle.unloads[0]!.model === 'A' ? 'B' : 'A'])
  const busy = small(
    resident('A', 'a', { gb: 14, running: 1, idleSince: null }),
    resident('B', 'a', { gb: 12, running: 1, idleSince: null, pinned: true }),
  )
  expect(busy.unloads).toEqual([])
  expect(busy.starts).toEqual([])
})
