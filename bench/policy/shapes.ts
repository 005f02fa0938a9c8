import { DEFAULT_RULES } from '../../src/policy/plan-input.ts'
import type { Description, ModelDescription } from '../../src/policy/sim/generate.ts'
import { Seeded } from '../../src/policy/sim/seeded.ts'
import type { Arrival, SimDevice } from '../../src/policy/sim/workload.ts'

/** A kind of workload that the policy is compared on. The same seed gives the same workload. */
export interface Shape {
  readonly name: string
  readonly describe: (seed: number) => Description
}

const GB = 1024 ** 3
const MINUTE = 60_000

type Sizes = Partial<Omit<ModelDescription, 'memory' | 'perJob'>> & {
  readonly gb?: number
  readonly perJobGb?: number
}

/** Jobs of one model. `every` is the mean gap; a `steady` one is exact instead of Poisson. */
interface Stream {
  readonly model: number
  readonly every: number
  readonly from?: number
  readonly to: number
  readonly steady?: boolean
  readonly runMs?: number
  readonly priority?: number
  /** Jobs that arrive together. */
  readonly together?: number
}

/** The four shapes that an earlier policy handled badly, then others of every kind that came to mind. */
export const NAMED_SHAPES: readonly Shape[] = [
  shape(
    'priority churn',
    gpus(24),
    [m({ runMs: 3000 }), m({ runMs: 2000 })],
    [
      { model: 0, every: 4300, to: 60 * MINUTE },
      { model: 1, every: 30_000, to: 60 * MINUTE, priority: 5 },
    ],
  ),
  shape(
    'priority churn, 50 %',
    gpus(24),
    [m({ runMs: 3000 }), m({ runMs: 2000 })],
    [
      { model: 0, every: 6000, to: 60 * MINUTE },
      { model: 1, every: 15_000, to: 60 * MINUTE, priority: 5 },
    ],
  ),
  shape(
    'priority churn, 85 %',
    gpus(24),
    [m({ runMs: 3000 }), m({ runMs: 1000 })],
    [
      { model: 0, every: 3700, to: 60 * MINUTE },
      { model: 1, every: 20_000, to: 60 * MINUTE, priority: 5 },
    ],
  ),
  shape(
    'priority churn, short loads',
    gpus(24),
    [m({ runMs: 5000, loadMs: 3000 }), m({ runMs: 1000, loadMs: 3000 })],
    [
      { model: 0, every: 7000, to: 60 * MINUTE },
      { model: 1, every: 20_000, to: 60 * MINUTE, priority: 5 },
    ],
  ),
  shape(
    'priority churn, backlog',
    gpus(24),
    [m({ runMs: 4000 }), m({ runMs: 1000, loadMs: 8000 })],
    [
      { model: 0, every: 1, to: 2, steady: true, together: 300 },
      { model: 1, every: 20_000, to: 30 * MINUTE, priority: 1 },
    ],
  ),
  shape(
    'room kept for a large model',
    gpus(24),
    [
      m({ gb: 8, runMs: 20_000, loadMs: 20_000 }),
      m({ gb: 22, runMs: 30_000, loadMs: 30_000 }),
      m({ gb: 4, runMs: 2000, loadMs: 2000 }),
      m({ gb: 6, runMs: 3000, loadMs: 3000 }),
    ],
    [
      { model: 0, every: 23_000, to: 60 * MINUTE },
      { model: 1, every: 15 * MINUTE, from: MINUTE, to: 60 * MINUTE },
      { model: 2, every: 20_000, to: 60 * MINUTE },
      { model: 3, every: 30_000, to: 60 * MINUTE },
    ],
  ),
  shape(
    'a long job blocks a large model',
    gpus(24),
    [
      m({ gb: 8, runMs: 5 * MINUTE, loadMs: 10_000 }),
      m({ gb: 22, runMs: 20_000, loadMs: 20_000 }),
      m({ gb: 4, runMs: 2000, loadMs: 2000 }),
      m({ gb: 6, runMs: 3000, loadMs: 3000 }),
    ],
    [
      { model: 0, every: 12 * MINUTE, to: 120 * MINUTE },
      { model: 1, every: 15 * MINUTE, from: MINUTE, to: 120 * MINUTE },
      { model: 2, every: 20_000, to: 120 * MINUTE },
      { model: 3, every: 30_000, to: 120 * MINUTE },
    ],
  ),
  shape(
    'a further copy on the only large device, 85 %',
    [gpu(0, 24), gpu(1, 48)],
    [m({ gb: 20, runMs: 6000 }), m({ gb: 40, runMs: 8000, loadMs: 20_000 })],
    [
      { model: 0, every: 7000, to: 50 * MINUTE },
      { model: 1, every: 40_000, to: 50 * MINUTE },
    ],
  ),
  shape(
    'a further copy on the only large device',
    [gpu(0, 24), gpu(1, 48)],
    [m({ gb: 20, runMs: 6000 }), m({ gb: 40, runMs: 8000, loadMs: 20_000 })],
    [
      { model: 0, every: 4500, to: 50 * MINUTE },
      { model: 1, every: 90_000, to: 50 * MINUTE },
    ],
  ),
  shape(
    'a further copy of a model with bursts',
    [gpu(0, 24), gpu(1, 48)],
    [m({ gb: 20, runMs: 5000, loadMs: 40_000 }), m({ gb: 40, runMs: 5000, loadMs: 10_000 })],
    [
      { model: 0, every: 6 * MINUTE, to: 60 * MINUTE, together: 40 },
      { model: 1, every: 30_000, to: 60 * MINUTE },
    ],
  ),
  shape(
    'a further copy blocks two others',
    [gpu(0, 24), gpu(1, 48)],
    [m({ gb: 20, runMs: 3000, loadMs: 60_000 }), ...same(2, { gb: 40, runMs: 4000, loadMs: 6000 })],
    [
      { model: 0, every: 3300, to: 60 * MINUTE },
      { model: 1, every: 120_000, to: 60 * MINUTE },
      { model: 2, every: 120_000, to: 60 * MINUTE },
    ],
  ),
  shape(
    'a further copy where others come later',
    gpus(24, 24),
    [m({ gb: 20, runMs: 2000, loadMs: 40_000 }), ...same(3, { gb: 20, runMs: 4000, loadMs: 6000 })],
    [
      { model: 0, every: 8 * MINUTE, to: 90 * MINUTE, together: 60 },
      ...[1, 2, 3].map((model) => ({ model, every: 4 * MINUTE, to: 90 * MINUTE })),
    ],
  ),
  inTurn('one more model than fits, in turn', 4, 8, 24, 15_000),
  inTurn('seven in turn where six fit', 7, 4, 24, 12_000),
  shape(
    'one more model than fits, Poisson',
    gpus(24),
    same(4, { gb: 8, loadMs: 6000, runMs: 3000 }),
    even(4, 40_000, 40 * MINUTE),
  ),
  shape(
    'three more models than fit, Poisson',
    gpus(24),
    same(6, { gb: 8, loadMs: 6000, runMs: 3000 }),
    even(6, 45_000, 40 * MINUTE),
  ),
  shape('burst, equal shares', gpus(24), same(5), together(5, 60)),
  shape('burst, two devices', gpus(24, 24), same(6), together(6, 50)),
  shape(
    'bursts every ten minutes',
    gpus(24),
    same(4),
    [0, 1, 2, 3].flatMap((at) => together(4, 15, at * 10 * MINUTE)),
  ),
  shape(
    'bursts that overlap',
    gpus(24),
    same(4, { loadMs: 20_000 }),
    [0, 1, 2, 3].map((model) => ({
      model,
      every: 4 * MINUTE,
      from: model * MINUTE,
      to: 50 * MINUTE,
      steady: true,
      together: 12,
    })),
  ),
  shape('trickle', gpus(24), same(3), even(3, 4 * MINUTE, 120 * MINUTE)),
  shape('steady 50 %', gpus(24), same(4), even(4, 32_000, 60 * MINUTE)),
  shape('steady 80 %', gpus(24), same(4), even(4, 20_000, 60 * MINUTE)),
  shape('saturated', gpus(24), same(4), even(4, 16_500, 40 * MINUTE)),
  shape('overload', gpus(24), same(4), even(4, 12_500, 30 * MINUTE)),
  shape('hot and rare, 60 %', gpus(24), same(5), [
    { model: 0, every: 7000, to: 60 * MINUTE },
    ...even(5, 8 * MINUTE, 60 * MINUTE).slice(1),
  ]),
  shape('hot and rare, 80 %', gpus(24), same(5), [
    { model: 0, every: 5300, to: 60 * MINUTE },
    ...even(5, 8 * MINUTE, 60 * MINUTE).slice(1),
  ]),
  shape('two hot, four rare, two devices', gpus(24, 24), same(6), [
    ...even(2, 5500, 40 * MINUTE),
    ...even(6, 6 * MINUTE, 40 * MINUTE).slice(2),
  ]),
  shape(
    'hot one changes',
    gpus(24),
    same(4),
    [0, 1, 2, 3].flatMap((model) => [
      { model, every: 6000, from: model * 12 * MINUTE, to: (model + 1) * 12 * MINUTE },
      { model, every: 5 * MINUTE, to: 48 * MINUTE },
    ]),
  ),
  shape(
    'hot one changes, three fit',
    gpus(24),
    same(6, { gb: 7 }),
    [0, 1, 2, 3, 4, 5].flatMap((model) => [
      { model, every: 6000, from: model * 8 * MINUTE, to: (model + 1) * 8 * MINUTE },
      { model, every: 2 * MINUTE, to: 48 * MINUTE },
    ]),
  ),
  shape(
    'small models pack',
    gpus(24),
    same(8, { gb: 5, loadMs: 4000, runMs: 3000 }),
    even(8, 20_000, 40 * MINUTE),
  ),
  shape(
    'sizes of every kind',
    gpus(24, 24),
    [3, 5, 7, 9, 12, 16, 20].map((gb) => m({ gb, loadMs: gb * 700, runMs: 4000 })),
    even(7, 25_000, 40 * MINUTE),
  ),
  shape(
    'large and small',
    gpus(24),
    [m({ gb: 22, loadMs: 15_000, runMs: 6000 }), ...same(5, { gb: 7, loadMs: 4000, runMs: 3000 })],
    [{ model: 0, every: 90_000, to: 40 * MINUTE }, ...even(6, 25_000, 40 * MINUTE).slice(1)],
  ),
  shape(
    'over two devices',
    gpus(24, 24),
    [m({ gb: 18, devices: 2, loadMs: 15_000 }), ...same(3, { gb: 10, loadMs: 6000 })],
    [{ model: 0, every: 60_000, to: 40 * MINUTE }, ...even(4, 18_000, 40 * MINUTE).slice(1)],
  ),
  shape('four devices, ten models', gpus(24, 24, 24, 24), same(10), even(10, 15_000, 30 * MINUTE)),
  shape('hot needs three of four devices', gpus(24, 24, 24, 24), same(4), [
    { model: 0, every: 1600, to: 30 * MINUTE },
    ...even(4, 40_000, 30 * MINUTE).slice(1),
  ]),
  shape(
    'devices of three sizes',
    [gpu(0, 16), gpu(1, 24), gpu(2, 48)],
    [12, 14, 20, 22, 40].map((gb) => m({ gb, loadMs: gb * 600, runMs: 5000 })),
    even(5, 16_000, 40 * MINUTE),
  ),
  shape(
    'several jobs at once on a copy',
    gpus(24),
    same(4, { gb: 12, perJobGb: 1, parallel: 4 }),
    even(4, 9000, 40 * MINUTE),
  ),
  shape(
    'long jobs, short loads',
    gpus(24, 24),
    same(5, { loadMs: 2000, runMs: 60_000 }),
    even(5, 3.5 * MINUTE, 120 * MINUTE),
  ),
  shape(
    'short jobs, long loads',
    gpus(24),
    same(4, { loadMs: 60_000, runMs: 500 }),
    even(4, 5000, 60 * MINUTE),
  ),
  shape('two workers', [gpu(0, 24), gpu(1, 24, 'w1')], same(5), even(5, 14_000, 30 * MINUTE)),
  shape(
    'one pinned',
    gpus(48),
    [m({ pinned: true }), ...same(3)],
    [{ model: 0, every: 10_000, to: 30 * MINUTE }, ...even(4, 20_000, 30 * MINUTE).slice(1)],
  ),
  shape(
    'three priorities',
    gpus(24),
    same(3),
    [0, 1, 2].map((model) => ({ model, every: 17_000, to: 40 * MINUTE, priority: model })),
  ),
  shape(
    'priorities within each model',
    gpus(24),
    same(3),
    [0, 1, 2].flatMap((model) =>
      [0, 1].map((priority) => ({ model, every: 36_000, to: 40 * MINUTE, priority })),
    ),
  ),
  shape('high backlog, low trickle', gpus(24, 24), same(3), [
    { model: 0, every: 1, to: 2, steady: true, together: 150, priority: 3 },
    { model: 1, every: 20_000, to: 15 * MINUTE },
    { model: 2, every: 40_000, to: 15 * MINUTE },
  ]),
]

/** A shape of which everything is random. */
export function randomShape(seed: number): Shape {
  return { name: `random ${seed}`, describe: () => describeRandom(seed) }
}

function describeRandom(seed: number): Description {
  const random = new Seeded(seed)
  const pick = <T>(list: readonly T[]): T => list[Math.floor(random.next() * list.length)]!
  const log = (low: number, high: number) => low * (high / low) ** random.next()
  const sizes = Array.from({ length: pick([1, 1, 1, 2, 2, 3, 4]) }, () => pick([16, 24, 24, 48]))
  const workers = random.next() < 0.2 ? 2 : 1
  const devices = sizes.map((gb, index) => gpu(index, gb, `w${index % workers}`))
  const largest = Math.max(...sizes)
  const scale = pick([0.3, 0.6, 0.95])
  const loadScale = log(2000, 40_000)
  const runScale = log(1000, 30_000)
  const models = Array.from({ length: 2 + Math.floor(random.next() * 7) }, () => {
    const gb = Math.max(1, largest * scale * random.between(0.3, 1))
    const parallel = pick([1, 1, 1, 2, 4])
    return m({
      gb,
      perJobGb: parallel > 1 ? 0.02 * gb : 0,
      parallel,
      loadMs: loadScale * random.between(0.5, 1.5),
      runMs: runScale * random.between(0.4, 1.6),
    })
  })
  const skew = pick([0, 0, 0.8, 2])
  const weights = models.map((_, index) => 1 / (index + 1) ** skew)
  const total = weights.reduce((sum, weight) => sum + weight, 0)
  const mean = models.reduce(
    (sum, model, index) => sum + (weights[index]! / total) * (model.runMs / model.parallel),
    0,
  )
  const fit = sizes.reduce((sum, gb) => sum + Math.max(1, Math.floor(gb / (largest * scale * 0.65))), 0)
  const every = mean / (pick([0.3, 0.5, 0.7, 0.9, 1.2]) * Math.min(fit, models.length))
  const to = 500 * every
  const priorities = random.next() < 0.25
  const kind = pick(['poisson', 'poisson', 'together', 'turns', 'phases'] as const)
  const streams = models.map((_, model): Stream => {
    const own = {
      model,
      every: (every * total) / weights[model]!,
      to,
      priority: priorities ? pick([0, 0, 1, 2]) : 0,
    }
    if (kind === 'together') return { ...own, every: own.every * 12, together: 12 }
    if (kind === 'turns') return { ...own, steady: true, from: model * every }
    if (kind !== 'phases') return own
    const from = (model * to) / models.length
    return { ...own, every, from, to: from + to / models.length }
  })
  return described(devices, models, arrivals(streams, models, random), {
    unloadMs: pick([0, 0, 500]),
    error: pick([0, 0, 0.3]),
  })
}

function shape(
  name: string,
  devices: readonly SimDevice[],
  models: readonly ModelDescription[],
  streams: readonly Stream[],
): Shape {
  return { name, describe: (seed) => described(devices, models, arrivals(streams, models, new Seeded(seed))) }
}

function inTurn(name: string, count: number, gb: number, memory: number, every: number): Shape {
  const models = same(count, { gb, loadMs: 5000, runMs: 2000 })
  return shape(
    name,
    gpus(memory),
    models,
    models.map((_, model) => ({
      model,
      every: count * every,
      from: model * every,
      to: 60 * MINUTE,
      steady: true,
    })),
  )
}

function described(
  devices: readonly SimDevice[],
  models: readonly ModelDescription[],
  jobs: readonly Arrival[],
  given: Partial<Description> = {},
): Description {
  const named = models.map((model, index) => ({ ...model, name: `m${index}` }))
  return {
    devices,
    models: named,
    arrivals: { kind: 'recorded', jobs },
    losses: [],
    rules: DEFAULT_RULES,
    unloadMs: 0,
    capacity: 1000,
    error: 0,
    ...given,
  }
}

function arrivals(
  streams: readonly Stream[],
  models: readonly ModelDescription[],
  random: Seeded,
): Arrival[] {
  const jobs = streams.flatMap(
    ({ model, every, from = 0, to, steady = false, runMs, priority = 0, together = 1 }) => {
      const gap = () => (steady ? every : random.exponential(every))
      const mine: Arrival[] = []
      for (let at = steady ? from : from + gap(); at < to; at += gap())
        for (let index = 0; index < together; index++)
          mine.push({ at, model, runMs: random.exponential(runMs ?? models[model]!.runMs), priority })
      return mine
    },
  )
  return jobs.sort((one, other) => one.at - other.at)
}

function m({ gb = 20, perJobGb = 0, ...given }: Sizes): ModelDescription {
  return {
    name: '',
    memory: gb * GB,
    devices: 1,
    perJob: perJobGb * GB,
    loadMs: 12_000,
    runMs: 4000,
    parallel: 1,
    pinned: false,
    weight: 1,
    priority: 0,
    ...given,
  }
}

function same(count: number, sizes: Sizes = {}): ModelDescription[] {
  return Array.from({ length: count }, () => m(sizes))
}

function even(count: number, every: number, to: number): Stream[] {
  return Array.from({ length: count }, (_, model) => ({ model, every, to }))
}

/** The same number of jobs of each model at once, in turns. */
function together(count: number, jobs: number, at = 0): Stream[] {
  return Array.from({ length: jobs }, () =>
    Array.from({ length: count }, (_, model) => ({ model, every: 1, from: at, to: at + 1, steady: true })),
  ).flat()
}

function gpu(index: number, gb: number, worker = 'w0'): SimDevice {
  return { key: `gpu${index}`, memory: gb * GB, worker }
}

function gpus(...sizes: readonly number[]): SimDevice[] {
  return sizes.map((gb, index) => gpu(index, gb))
}
