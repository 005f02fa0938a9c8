import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { DEFAULT_RULES } from '../plan-input.ts'
import { compare } from './compare.ts'
import type { ArrivalDescription, Description, ModelDescription } from './generate.ts'
import { generate } from './generate.ts'
import { lowerBound } from './lower-bound.ts'
import type { Measures } from './measure.ts'
import { measure } from './measure.ts'
import { findOptimum } from './optimum.ts'
import { fifoPolicy } from './policies/baselines.ts'
import type { PolicyName } from './policies/by-name.ts'
import { sluicePolicy } from './policies/sluice.ts'
import { type Course, simulate } from './simulate.ts'
import { drawTimeline } from './timeline-svg.ts'

const GB = 1024 ** 3
const RULES = DEFAULT_RULES

function model(name: string, given: Partial<ModelDescription> = {}): ModelDescription {
  return {
    name,
    memory: 20 * GB,
    devices: 1,
    perJob: 0,
    loadMs: 12_000,
    runMs: 4_000,
    parallel: 1,
    pinned: false,
    weight: 1,
    priority: 0,
    ...given,
  }
}

function scene(
  models: readonly ModelDescription[],
  arrivals: ArrivalDescription,
  given: Partial<Description> = {},
): Description {
  return {
    devices: [{ key: 'gpu', memory: 24 * GB, worker: 'w' }],
    models,
    arrivals,
    losses: [],
    rules: RULES,
    unloadMs: 0,
    capacity: 1000,
    error: 0,
    ...given,
  }
}

const zipf = Array.from({ length: 6 }, (_, index) => model(`m${index}`, { weight: 1 / (index + 1) ** 0.8 }))
const hot = [model('hot', { weight: 95 }), ...Array.from({ length: 5 }, (_, index) => model(`rare${index}`))]
const gpus = (count: number) =>
  Array.from({ length: count }, (_, index) => ({ key: `gpu${index}`, memory: 24 * GB, worker: 'w' }))

function figures(description: Description, policies: readonly PolicyName[], seeds: number) {
  const { rows } = compare(description, { seeds, firstSeed: 1, policies })
  return new Map<PolicyName, Measures>(rows.map(({ policy, measures }) => [policy, measures]))
}

// The goals, with fewer seeds than bench/policy.mjs, which plays a thousand.
describe('the goals', () => {
  test('burst: at most twice the loads of the optimum, at most a tenth over the lower bound', () => {
    const found = figures(scene(zipf, { kind: 'burst', tasks: 600 }), ['sluice'], 5).get('sluice')!

    expect(found.loads).toBeLessThanOrEqual(2 * 6)
    expect(found.stretch).toBeLessThanOrEqual(1.1)
  })

  test('steady 70 %: a quarter of the loads of FIFO, and 95 of 100 wait as they would without a guard', () => {
    const found = figures(
      scene(zipf, { kind: 'steady', tasks: 1000, load: 0.7 }),
      ['sluice', 'fifo', 'llama-swap'],
      6,
    )

    expect(found.get('sluice')!.loads).toBeLessThanOrEqual(found.get('fifo')!.loads / 4)
    expect(found.get('sluice')!.waitP95).toBeLessThanOrEqual(1.1 * found.get('llama-swap')!.waitP95)
  })

  test('hot and rare: the longest wait is halved for at most half as many loads more', () => {
    const found = figures(
      scene(hot, { kind: 'steady', tasks: 1000, load: 0.9 }),
      ['sluice', 'llama-swap'],
      20,
    )

    expect(found.get('sluice')!.waitMax).toBeLessThanOrEqual(0.5 * found.get('llama-swap')!.waitMax)
    expect(found.get('sluice')!.loads).toBeLessThanOrEqual(1.5 * found.get('llama-swap')!.loads)
  })
})

describe('two lessons', () => {
  test('a guard without a quantum loads for ever once every model has waited too long; the real one does not', () => {
    const found = figures(scene(zipf, { kind: 'burst', tasks: 100 }), ['naive-guard', 'sluice'], 5)

    expect(found.get('naive-guard')).toMatchObject({ livelock: 5 })
    expect(found.get('naive-guard')!.unserved).toBeGreaterThan(0)
    expect(found.get('sluice')).toMatchObject({ livelock: 0, unserved: 0 })
  })

  test('a tight guard makes the longest wait longer', () => {
    const steady = (quantum: number) =>
      figures(
        scene(zipf, { kind: 'steady', tasks: 1000, load: 0.7 }, { rules: { quantum, maxWaitMs: 60_000 } }),
        ['sluice'],
        5,
      ).get('sluice')!

    const [tight, ample] = [steady(0.5), steady(9)]
    expect(tight.waitMax).toBeGreaterThan(1.1 * ample.waitMax)
    expect(tight.loads).toBeGreaterThan(ample.loads)
  })
})

test('a big model is not starved by small ones that always have work', () => {
  const small = Array.from({ length: 6 }, (_, index) =>
    model(`s${index}`, { memory: 7 * GB, loadMs: 4000, runMs: 3000, weight: 5 }),
  )
  const big = model('big', { memory: 22 * GB, loadMs: 15_000, runMs: 6000, weight: 0.5 })
  const description = scene([...small, big], { kind: 'steady', tasks: 1000, load: 0.9 })
  for (let seed = 1; seed <= 5; seed++) {
    const waits = waitsOf(simulate(generate(description, seed), sluicePolicy(RULES)), 'big')
    // Every small one may have its quantum or its backlog before it; the drain of three takes a job each.
    expect(Math.max(...waits)).toBeLessThan(RULES.maxWaitMs + 7 * (9 * 15_000 + 15_000))
  }
})

test('a model that was unloaded for another is not loaded back before that one was', () => {
  const description = scene(hot, { kind: 'steady', tasks: 400, load: 0.95 })
  for (let seed = 1; seed <= 4; seed++) {
    const { loads } = simulate(generate(description, seed), sluicePolicy(RULES))
    const twice = loads.filter(({ model }, index) => loads[index - 1]?.model === model)
    expect(twice, `seed ${seed}`).toEqual([])
  }
})

test('higher priority waits less, also when its jobs are few', () => {
  const urgent = model('urgent', { weight: 0.2, priority: 5 })
  const description = scene([...zipf, urgent], { kind: 'steady', tasks: 800, load: 0.6 })
  const course = simulate(generate(description, 3), sluicePolicy(RULES))
  const worst = Math.max(...waitsOf(course, 'urgent'))

  // One quantum, a job that runs, a load, and the jobs of its own model before it.
  expect(worst).toBeLessThan(9 * 12_000 + 100_000)
  expect(worst).toBeLessThan(Math.max(...waitsOf(course, 'm5')))
})

test('under a steady stream of higher priority, jobs of a low one move where their lane ages them, and only there', () => {
  const models = [model('high', { runMs: 5000, priority: 1, weight: 20 }), model('low', { weight: 1 })]
  const workload = generate(scene(models, { kind: 'steady', tasks: 400, load: 1.1 }), 1)
  const worst = (ageingMs?: number) =>
    Math.max(...waitsOf(simulate(workload, sluicePolicy(RULES, ageingMs)), 'low'))

  // The high ones take some 33 minutes.
  expect(worst()).toBeGreaterThan(25 * 60_000)
  // To be equal it has to age by a minute, then it waits as one of equals does: the maximum wait, a turn and the loads.
  expect(worst(60_000)).toBeLessThan(15 * 60_000)
})

function waitsOf({ jobs }: Course, name: string): number[] {
  return jobs.filter((job) => job.model.name === name).map(({ at, startedAt }) => startedAt! - at)
}

const anyScene = fc
  .record({
    models: fc.array(
      fc.record({
        memory: fc.integer({ min: 1, max: 24 }).map((size) => size * GB),
        devices: fc.integer({ min: 1, max: 2 }),
        perJob: fc.constantFrom(0, 0, 0.25 * GB),
        loadMs: fc.integer({ min: 100, max: 30_000 }),
        runMs: fc.integer({ min: 10, max: 20_000 }),
        parallel: fc.integer({ min: 1, max: 3 }),
        weight: fc.integer({ min: 1, max: 20 }),
      }),
      { minLength: 1, maxLength: 6 },
    ),
    devices: fc.integer({ min: 2, max: 4 }),
    workers: fc.integer({ min: 1, max: 2 }),
    load: fc.double({ min: 0.2, max: 2, noNaN: true }),
    unloadMs: fc.constantFrom(0, 500),
    error: fc.constantFrom(0, 0.3),
    loss: fc.option(fc.integer({ min: 0, max: 60_000 })),
    seed: fc.integer({ min: 0, max: 1e6 }),
  })
  .map(({ models, devices, workers, load, loss, seed, ...rest }) => {
    const offered = gpus(devices).map((device, index) => ({
      ...device,
      memory: 36 * GB,
      worker: `w${index % workers}`,
    }))
    const described = models.map((each, index) =>
      model(`m${index}`, { ...each, devices: workers === 1 ? each.devices : 1 }),
    )
    const losses = loss === null ? [] : [{ device: 'gpu0', at: loss, back: loss + 30_000 }]
    return {
      seed,
      description: scene(
        described,
        { kind: 'steady', tasks: 120, load },
        { ...rest, devices: offered, losses },
      ),
    }
  })

test('whatever comes: nothing over capacity, no livelock, every job is served, first come first served within a model', () => {
  fc.assert(
    fc.property(anyScene, ({ description, seed }) => {
      const workload = generate(description, seed)
      const course = simulate(workload, sluicePolicy(RULES))
      expect(course).toMatchObject({ overcommits: 0, livelock: false, stuck: 0 })
      expect(measure(workload, course).unserved).toBe(0)
      if (workload.losses.length > 0 || course.outOfMemory > 0) return
      for (const { name, parallel } of workload.models) {
        if (parallel > 1) continue
        const starts = course.jobs.filter((job) => job.model.name === name).map(({ startedAt }) => startedAt!)
        // Two copies of one model may be loaded at different speeds only; then an earlier job starts a load later.
        const loadsOfIt = course.loads.filter((load) => load.model === name).length
        if (loadsOfIt === 1) expect(starts).toEqual([...starts].sort((one, other) => one - other))
      }
    }),
    { numRuns: 150 },
  )
})

test('every load is followed by a job of that model before the copy goes', () => {
  fc.assert(
    fc.property(anyScene, ({ description, seed }) => {
      const workload = generate({ ...description, losses: [], error: 0 }, seed)
      const course = simulate(workload, sluicePolicy(RULES))
      const used = new Set(course.runs.map(({ copy }) => copy))
      expect(course.loads.filter(({ copy }) => !used.has(copy))).toEqual([])
    }),
    { numRuns: 100 },
  )
})

test('starvation: a wait is at most the maximum wait and the turns and loads of those ahead', () => {
  const scenes = fc.record({
    count: fc.integer({ min: 2, max: 6 }),
    load: fc.double({ min: 0.1, max: 0.6, noNaN: true }),
    skew: fc.double({ min: 0, max: 3, noNaN: true }),
    loadMs: fc.integer({ min: 500, max: 20_000 }),
    seed: fc.integer({ min: 0, max: 1e6 }),
  })
  fc.assert(
    fc.property(scenes, ({ count, load, skew, loadMs, seed }) => {
      const models = Array.from({ length: count }, (_, index) =>
        model(`m${index}`, { loadMs, weight: 1 / (index + 1) ** skew }),
      )
      const workload = generate(scene(models, { kind: 'steady', tasks: 300, load }), seed)
      const course = simulate(workload, sluicePolicy(RULES))
      const longest = Math.max(...workload.arrivals.map(({ runMs }) => runMs))
      for (const job of course.jobs)
        expect(job.startedAt! - job.at).toBeLessThanOrEqual(boundFor(job, course, loadMs, longest))
    }),
    { numRuns: 60 },
  )
})

/** From the moment its queue is due: one turn, load and last job of every other model; then what is before it in its own queue. */
function boundFor(job: Course['jobs'][number], course: Course, loadMs: number, longest: number): number {
  const own = course.jobs.filter(
    (other) => other.model === job.model && other.index < job.index && other.endedAt! > job.at,
  )
  const work = own.reduce((sum, { runMs }) => sum + runMs, 0)
  const rivals = new Set(course.jobs.map(({ model }) => model.name)).size - 1
  // A turn lasts for the quantum, or as long as its oldest job had waited: what anyone waited before this one started.
  const waited = course.jobs
    .filter((other) => other.startedAt! <= job.startedAt! && other.model !== job.model)
    .reduce((most, { at, startedAt }) => Math.max(most, startedAt! - at), 0)
  const turn = Math.max(RULES.quantum * loadMs, waited) + loadMs + longest
  // Its own queue may need more than one turn of its own.
  const turns = 1 + Math.ceil(work / (RULES.quantum * loadMs))
  return RULES.maxWaitMs + turns * (rivals * turn + loadMs) + work + longest
}

test('no policy is better than the optimum, and the optimum is not better than the lower bound', () => {
  const small = fc.record({
    tasks: fc.integer({ min: 1, max: 12 }),
    load: fc.double({ min: 0.3, max: 3, noNaN: true }),
    seed: fc.nat(1e6),
  })
  fc.assert(
    fc.property(small, ({ tasks, load, seed }) => {
      const workload = generate(scene(zipf.slice(0, 3), { kind: 'steady', tasks, load }), seed)
      const optimum = findOptimum(workload)!
      expect(optimum.makespanMs).toBeGreaterThanOrEqual(lowerBound(workload) - 1e-6)
      for (const policy of [sluicePolicy(RULES), fifoPolicy()]) {
        const { jobs } = simulate(workload, policy)
        expect(Math.max(...jobs.map(({ endedAt }) => endedAt!))).toBeGreaterThanOrEqual(
          optimum.makespanMs - 1e-6,
        )
      }
    }),
    { numRuns: 200 },
  )
})

test('the optimum of a small case is what one finds by hand', () => {
  const jobs = [0, 1, 0, 1].map((each, index) => ({ at: index, model: each, runMs: 1000, priority: 0 }))
  const workload = generate(scene(zipf.slice(0, 2), { kind: 'recorded', jobs }), 1)

  expect(findOptimum(workload)).toEqual({ makespanMs: 2 * 12_000 + 4 * 1000, loads: 2 })
})

test('the same seed gives the same course', () => {
  const description = scene(
    zipf,
    { kind: 'diurnal', tasks: 200, load: 0.6, periodMs: 600_000 },
    { error: 0.3 },
  )
  const play = (seed: number) => simulate(generate(description, seed), sluicePolicy(RULES)).loads

  expect(play(7)).toEqual(play(7))
  expect(play(7)).not.toEqual(play(8))
})

test('the picture shows each load, and names with markup in them as text', () => {
  const workload = generate(scene([model('<a&b>'), model('c')], { kind: 'burst', tasks: 20 }), 1)
  const course = simulate(workload, sluicePolicy(RULES))
  const svg = drawTimeline(workload, [{ title: 'sluice', course }], 'two & more')

  expect(svg.match(/url\(#loading-/g)!.length).toBe(course.loads.length + 1)
  expect(svg).toContain('&#60;a&#38;b&#62;')
  expect(svg).not.toContain('<a&b>')
})
