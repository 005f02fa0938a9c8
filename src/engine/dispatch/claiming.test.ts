import { beforeEach, expect, test, vi } from 'vitest'
import type { RawQueryable } from '../../db/database.ts'
import type { ClaimedRow } from '../../model/claim.ts'
import { Offer } from './claimable-classes.ts'
import { Claiming } from './claiming.ts'
import { IdleSlots } from './idle-slots.ts'

const LANES = ['a', 'b']
const CLASSES = LANES.map((lane, i) => ({
  ...{ id: i + 1, task: `task-${lane}`, lane, slots: 4, pollMs: 1000, staleMs: 5000 },
  ...{ model: null, budgeted: false, spread: false, prefetch: 500 },
}))
const ASKER = { workerId: '7', lanes: LANES, held: new Map() }
/** A job of the class in lane `a`. */
const JOB = ['1', 1, 1, 0, 0, 0, '', null, null, null, '1', null, null, null, false, null] as ClaimedRow

let claiming: Claiming
let slots: IdleSlots

beforeEach(async () => {
  vi.useFakeTimers({ toFake: ['performance'] })
  const offer = new Offer({ tasks: ['task-a', 'task-b'], labels: {}, processTasks: new Set() })
  await offer.read({ run: async () => CLASSES as never })
  slots = new IdleSlots()
  slots.setLimited(LANES)
  const log = { debug() {}, info() {}, warn() {}, error() {} }
  claiming = new Claiming({ offer, slots, connection: {} as RawQueryable, log, hears: () => true })
  return () => void vi.useRealTimers()
})

/** Makes a cycle that is given a job of lane `a`, and tells which class it took for the only one with work. */
async function cycle(): Promise<number | undefined> {
  const claim = await claiming.prepare(ASKER, [], [], { free: 1, freeProcesses: 0 })
  const steady = claim.arguments.steadyClass !== undefined
  claiming.learn(claim, { jobs: [JOB], report: {}, steady, wasTried: steady }, 1)
  return claim.arguments.steadyClass
}

test('looks at one class alone while the other lanes have no slots to give back', async () => {
  expect(await cycle()).toBeUndefined()
  vi.advanceTimersByTime(900)
  expect(await cycle()).toBe(1)
})

test('looks at all lanes while another one may have idle slots', async () => {
  slots.started('b')
  slots.ended('b')
  expect(await cycle()).toBeUndefined()
  expect(await cycle()).toBeUndefined()
  // Idle slots are kept for 200 to 400 ms. The cycle after that gives them back.
  vi.advanceTimersByTime(450)
  await cycle()
  vi.advanceTimersByTime(450)
  await cycle()
  expect(await cycle()).toBe(1)
})

test('looks at all lanes every second', async () => {
  await cycle()
  vi.advanceTimersByTime(1000)
  expect(await cycle()).toBeUndefined()
  expect(await cycle()).toBe(1)
})

test('looks at all lanes after a resync, because a lost answer may have taken slots of any', async () => {
  await cycle()
  claiming.noteResync([])
  expect(await cycle()).toBeUndefined()
})
