import fc from 'fast-check'
import { expect, test } from 'vitest'
import { plan } from './plan.ts'
import type { PlanInput, ResidentView } from './plan-input.ts'

const BUDGETS = ['vram', 'ram'] as const
const MODELS = ['A', 'B', 'C', 'D', 'E']
const NOW = 10_000_000

const amount = fc.oneof(fc.integer({ min: 0, max: 30 }), fc.double({ min: 0, max: 30, noNaN: true }))
const devices = fc.uniqueArray(
  fc.record({
    key: fc.constantFrom('a', 'b', 'c', 'd'),
    budget: fc.constantFrom(...BUDGETS),
    capacity: fc.option(fc.integer({ min: 0, max: 48 }), { freq: 9 }),
    used: fc.double({ min: 0, max: 1, noNaN: true }),
  }),
  { maxLength: 6, selector: ({ key, budget }) => `${key} ${budget}` },
)
const asks = fc.uniqueArray(
  fc.record({
    budget: fc.constantFrom(...BUDGETS, 'licences'),
    devices: fc.integer({ min: 1, max: 3 }),
    each: amount,
  }),
  { maxLength: 3, selector: ({ budget }) => budget },
)
const residents = fc.array(
  fc.record({
    model: fc.constantFrom(...MODELS),
    shares: fc.uniqueArray(
      fc.record({
        budget: fc.constantFrom(...BUDGETS),
        device: fc.constantFrom('a', 'b', 'c', 'd', 'far'),
        amount,
      }),
      { minLength: 1, maxLength: 2, selector: ({ budget, device }) => `${budget} ${device}` },
    ),
    mine: fc.boolean(),
    loadedAgo: fc.option(fc.integer({ min: 0, max: 900_000 })),
    unloading: fc.boolean(),
    running: fc.integer({ min: 0, max: 2 }),
    pinned: fc.boolean(),
  }),
  { maxLength: 6 },
)
const queues = fc.array(
  fc.record({
    model: fc.option(fc.constantFrom(...MODELS), { freq: 4 }),
    depth: fc.integer({ min: 0, max: 50 }),
    priority: fc.integer({ min: -1, max: 1 }),
    waitedMs: fc.integer({ min: 0, max: 900_000 }),
    own: fc.option(asks, { freq: 1 }),
    parallel: fc.integer({ min: 1, max: 4 }),
    uses: asks,
    perJob: asks,
    most: fc.integer({ min: 0, max: 50 }),
  }),
  { maxLength: 8 },
)

const pictures = fc
  .record({
    devices,
    residents,
    queues,
    free: fc.integer({ min: 0, max: 20 }),
    licences: fc.integer({ min: 0, max: 5 }),
  })
  .map(
    (drawn): PlanInput => ({
      now: NOW,
      free: drawn.free,
      devices: drawn.devices.map(({ key, budget, capacity, used }) => ({
        key,
        budget,
        capacity,
        room: capacity === null ? null : capacity * (1 - used),
      })),
      shared: new Map([['licences', drawn.licences]]),
      residents: drawn.residents.map(({ loadedAgo, ...view }, index): ResidentView => {
        const loadedAt = loadedAgo === null ? null : NOW - loadedAgo
        return { ...view, id: String(index), loadedAt, idleSince: view.running > 0 ? null : NOW - 5000 }
      }),
      queues: drawn.queues.map(({ priority, waitedMs, own, ...view }, classId) => ({
        ...view,
        classId,
        task: `t${classId}`,
        head: { priority, waitingSince: NOW - waitedMs, uses: own },
      })),
      models: new Map([['A', { loadMs: 5000, runMs: 1000, restMs: null }]]),
      rules: new Map([['vram', { quantum: 9, maxWaitMs: 120_000 }]]),
    }),
  )

/** A failing run prints its seed and path: pass them to `fc.assert` to repeat it. */
// More by a flag, as in SLUICE_RUNS=20000.
const RUNS = { numRuns: Number(process.env.SLUICE_RUNS ?? 1000) }

test('what starts together never exceeds the room of a device, a shared budget, the worker or a lane', () => {
  fc.assert(
    fc.property(pictures, (input) => {
      const { starts } = plan(input)
      const taken = new Map<string, number>()
      const copies = new Set<string>()
      const started = new Map<number, number>()
      for (const { classId, count, model, deviceUses, newResident } of starts) {
        expect(count).toBeGreaterThan(0)
        started.set(classId, (started.get(classId) ?? 0) + count)
        const copy = `${model} ${deviceUses.map(({ budget, device }) => `${budget} ${device}`).join()}`
        for (const { budget, device, resident, perJob } of deviceUses) {
          const charged = newResident && !copies.has(copy) ? resident : 0
          const key = `${budget} ${device}`
          taken.set(key, (taken.get(key) ?? 0) + charged + count * perJob)
        }
        if (newResident) copies.add(copy)
        const queue = input.queues[classId]!
        const jobs = [...(queue.head.uses ?? queue.uses), ...queue.perJob]
        for (const { budget, each } of jobs)
          if (budget === 'licences') taken.set(budget, (taken.get(budget) ?? 0) + count * each)
      }
      for (const { key, budget, room } of input.devices)
        expect(taken.get(`${budget} ${key}`) ?? 0).toBeLessThanOrEqual((room ?? Infinity) + 1e-9)
      for (const key of taken.keys())
        if (key !== 'licences')
          expect(
            input.devices.some((device) => `${device.budget} ${device.key}` === key),
            key,
          ).toBe(true)
      expect(taken.get('licences') ?? 0).toBeLessThanOrEqual(input.shared.get('licences')! + 1e-9)
      for (const [classId, count] of started) {
        const { depth, most } = input.queues[classId]!
        expect(count).toBeLessThanOrEqual(Math.min(depth, most))
      }
      expect([...started.values()].reduce((sum, count) => sum + count, 0)).toBeLessThanOrEqual(input.free)
    }),
    RUNS,
  )
})

test('only idle copies are unloaded, none that is pinned, and none that gets a job in the same plan', () => {
  fc.assert(
    fc.property(pictures, (input) => {
      const { starts, unloads } = plan(input)
      expect(new Set(unloads.map(({ resident }) => resident)).size).toBe(unloads.length)
      for (const { resident, shares } of unloads) {
        const view = input.residents.find(({ id }) => id === resident)!
        expect(view).toMatchObject({ running: 0, pinned: false, unloading: false })
        const mine = starts.filter(
          ({ model, newResident }) => model === view.model && !newResident && view.mine,
        )
        for (const { deviceUses } of mine)
          expect(deviceUses.map(({ device }) => device)).not.toEqual(shares.map(({ device }) => device))
      }
    }),
    RUNS,
  )
})

test('no copy has more jobs than parallel allows', () => {
  fc.assert(
    fc.property(pictures, (input) => {
      for (const { classId, count, model } of plan(input).starts)
        if (model !== null) expect(count).toBeLessThanOrEqual(input.queues[classId]!.parallel)
    }),
    RUNS,
  )
})

test('every class that does not start all it could says why, and the same input gives the same plan', () => {
  fc.assert(
    fc.property(pictures, (input) => {
      const decided = plan(input)
      const explained = new Set(decided.verdicts.map(({ classId }) => classId))
      for (const { classId, depth } of input.queues) {
        const started = decided.starts.reduce(
          (sum, start) => sum + (start.classId === classId ? start.count : 0),
          0,
        )
        if (started < depth) expect(explained.has(classId), `class ${classId}`).toBe(true)
      }
      expect(decided.lookAgainMs).toBeGreaterThanOrEqual(1)
      expect(plan(input)).toEqual(decided)
    }),
    RUNS,
  )
})
