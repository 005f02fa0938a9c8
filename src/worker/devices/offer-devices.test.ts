import { expect, test } from 'vitest'
import type { DeviceBudget } from '../../model/device.ts'
import { learnGpus, NO_SNAPSHOT, needsGpus, offerDevices, visibleGpus } from './offer-devices.ts'
import type { Gpu } from './parse-gpus.ts'

const AUTO: DeviceBudget = { name: 'vram', auto: true, declared: {} }
const DECLARED: DeviceBudget = { name: 'vram', auto: false, declared: { gpu0: 24, other: 8 } }

function gpu(index: number, more: Partial<Gpu> = {}): Gpu {
  const bus = `00000000:0${index}:00.0`
  const facts = { uuid: `GPU-${index}`, index, name: 'One', bus, total: 100, used: 10, free: 90 }
  return { ...facts, lost: false, mig: false, ...more }
}

function read(...gpus: Gpu[]) {
  return { kind: 'read', gpus, lostBuses: [] } as const
}

const keysOf = (devices: readonly { readonly key: string }[]) => devices.map((device) => device.key)

test('GPUs are offered under their uuids, with what was measured and how old that is', () => {
  const snapshot = learnGpus(NO_SNAPSHOT, read(gpu(0), gpu(1, { used: null, free: null })), 1000)
  expect(offerDevices([AUTO], 'box', snapshot, undefined, 1500)).toEqual([
    { budget: 'vram', key: 'GPU-0', name: 'One', total: 100, used: 10, free: 90, ageMs: 500, lost: false },
    {
      budget: 'vram',
      key: 'GPU-1',
      name: 'One',
      total: 100,
      used: null,
      free: null,
      ageMs: 500,
      lost: false,
    },
  ])
})

test('a machine without the program has one device without bounds; one that cannot be read offers none', () => {
  const none = learnGpus(NO_SNAPSHOT, { kind: 'absent' }, 0)
  expect(offerDevices([AUTO], 'box', none, undefined, 0)).toMatchObject([
    { key: 'box/cpu', total: null, free: null, ageMs: null },
  ])
  const unread = learnGpus(NO_SNAPSHOT, { kind: 'failed', why: 'it hangs' }, 0)
  expect(offerDevices([AUTO], 'box', unread, undefined, 0)).toEqual([])
})

test('a failed reading changes nothing, except that what was measured gets old', () => {
  const before = learnGpus(NO_SNAPSHOT, read(gpu(0)), 1000)
  const after = learnGpus(before, { kind: 'failed', why: 'it hangs' }, 4000)
  expect(offerDevices([AUTO], 'box', after, undefined, 21_000)).toMatchObject([
    { key: 'GPU-0', free: 90, ageMs: 20_000 },
  ])
})

test('once the program is gone that showed the GPUs they are lost, and the machine is not one without bounds', () => {
  const before = learnGpus(NO_SNAPSHOT, read(gpu(0), gpu(1)), 1000)
  const after = learnGpus(before, { kind: 'absent' }, 4000)
  expect(offerDevices([AUTO, DECLARED], 'box', after, undefined, 4000)).toMatchObject([
    { key: 'GPU-0', total: 100, free: null, lost: true },
    { key: 'GPU-1', lost: true },
    { key: 'box/gpu0', total: 24, free: null, lost: true },
    { key: 'box/other', lost: false },
  ])
  expect(learnGpus(after, { kind: 'absent' }, 6000)).toEqual(after)
  expect(learnGpus(after, read(gpu(0), gpu(1)), 8000).gpus).toMatchObject([{ lost: false }, { lost: false }])
})

test('a GPU that disappears is lost until it is back', () => {
  const both = learnGpus(NO_SNAPSHOT, read(gpu(0), gpu(1)), 0)
  const one = learnGpus(both, read(gpu(0)), 0)
  expect(one.gpus).toMatchObject([
    { uuid: 'GPU-0', lost: false },
    { uuid: 'GPU-1', lost: true, free: null },
  ])
  expect(learnGpus(one, read(gpu(0)), 0).gpus).toHaveLength(2)
  expect(learnGpus(one, read(gpu(0), gpu(1)), 0).gpus).toMatchObject([{ lost: false }, { lost: false }])
})

test('an error message in place of the list loses only the GPU it names', () => {
  const both = learnGpus(NO_SNAPSHOT, read(gpu(0), gpu(1)), 0)
  const after = learnGpus(both, { kind: 'read', gpus: [], lostBuses: ['0000:01:00.0'] }, 5000)
  expect(after.gpus).toMatchObject([
    { uuid: 'GPU-0', lost: false, free: 90 },
    { uuid: 'GPU-1', lost: true },
  ])
  expect(after.readAt).toBe(0)
})

test('declared devices belong to the machine; those named by a number are measured by the GPU of that number', () => {
  const snapshot = learnGpus(NO_SNAPSHOT, read(gpu(0)), 0)
  expect(offerDevices([DECLARED], 'box', snapshot, undefined, 0)).toMatchObject([
    { key: 'box/gpu0', total: 24, used: 10, free: 90 },
    { key: 'box/other', total: 8, used: null, free: null, ageMs: null },
  ])
  expect(needsGpus([DECLARED])).toBe(true)
  expect(needsGpus([{ ...DECLARED, declared: { ram: 8 } }])).toBe(false)
})

test('a process that sees only some GPUs offers only those', () => {
  const gpus = [gpu(0), gpu(1), gpu(2)]
  const seen = (visible: string | undefined) => visibleGpus(gpus, visible).map((each) => each.uuid)
  expect(seen(undefined)).toEqual(['GPU-0', 'GPU-1', 'GPU-2'])
  expect(seen('2,0')).toEqual(['GPU-2', 'GPU-0'])
  expect(seen('GPU-1')).toEqual(['GPU-1'])
  expect(seen('0,-1,1')).toEqual(['GPU-0'])
  expect(seen('')).toEqual([])

  const snapshot = learnGpus(NO_SNAPSHOT, read(...gpus), 0)
  expect(keysOf(offerDevices([AUTO], 'box', snapshot, '1', 0))).toEqual(['GPU-1'])
  // Whoever may use none is sure of it, whether there are any or not.
  for (const any of [snapshot, NO_SNAPSHOT])
    expect(offerDevices([AUTO], 'box', any, '', 0)).toMatchObject([{ key: 'box/cpu', ageMs: 0 }])
})
