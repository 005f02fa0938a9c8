import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, expect, test } from 'vitest'
import type { DeviceBudget, DeviceReading } from '../../src/model/device.ts'
import { DeviceWatch } from '../../src/worker/devices/device-watch.ts'
import { GpuReader } from '../../src/worker/devices/gpu-reader.ts'
import { FakeGpus } from '../support/fake-gpus.ts'
import { childrenOf } from '../support/processes.ts'
import { until } from '../support/until.ts'

const MIB = 1024 ** 2
const AUTO: DeviceBudget = { name: 'vram', auto: true, declared: {} }
const undo: (() => unknown)[] = []

afterEach(async () => {
  for (const each of undo.splice(0).reverse()) await each()
})

function fakeGpus(): FakeGpus {
  const gpus = new FakeGpus([
    { uuid: 'GPU-a', totalMiB: 24_576, keptMiB: 500 },
    { uuid: 'GPU-b', totalMiB: 8192 },
  ])
  undo.push(() => gpus.delete())
  undo.push(gpus.install())
  return gpus
}

/** A watch whose reports are kept. */
function watch(budgets: readonly DeviceBudget[], timeoutMs = 2000) {
  const reports: (readonly DeviceReading[])[] = []
  const logged: string[] = []
  const log = {
    info: (_: object, message: string) => void logged.push(message),
    warn: (_: object, message: string) => void logged.push(message),
  }
  const source = {
    away: false,
    budgets,
    async reportDevices(readings: readonly DeviceReading[]) {
      if (source.away) throw new Error('away')
      reports.push(readings)
      return source.budgets
    },
  }
  const devices = new DeviceWatch({ source, host: 'box', log, reader: new GpuReader({ timeoutMs }) })
  undo.push(() => devices.stop())
  devices.start()
  const last = () => reports.at(-1)
  const seen = (what: string, matches: (readings: readonly DeviceReading[]) => boolean) =>
    until(() => (last() !== undefined && matches(last()!) ? last() : undefined), what)
  return { devices, reports, logged, source, seen }
}

const byKey = (readings: readonly DeviceReading[], key: string) => readings.find((each) => each.key === key)

test('what a program uses shows in the next reading, with what the driver keeps for itself', async () => {
  const gpus = fakeGpus()
  gpus.take('GPU-a', 4096 * MIB)
  const reader = new GpuReader()
  expect(await reader.read()).toMatchObject({
    kind: 'read',
    gpus: [
      { uuid: 'GPU-a', index: 0, total: 24_576 * MIB, used: 4096 * MIB, free: (24_576 - 500 - 4096) * MIB },
      { uuid: 'GPU-b', index: 1, used: 0 },
    ],
  })
})

test('other columns in another order, and an older driver that does not know all of them, are read just as well', async () => {
  const gpus = fakeGpus()
  gpus.knowsMig = false
  const reader = new GpuReader()
  expect(await reader.read()).toMatchObject({ kind: 'read', gpus: [{ uuid: 'GPU-a' }, { uuid: 'GPU-b' }] })
  expect(await reader.read()).toMatchObject({ kind: 'read' })
  expect(gpus.calls).toHaveLength(3)

  gpus.columns = ['fan.speed', 'memory.free', 'uuid', 'power.draw', 'memory.total']
  expect(await reader.read()).toMatchObject({
    kind: 'read',
    gpus: [
      { uuid: 'GPU-a', total: 24_576 * MIB, used: null, free: 24_076 * MIB, index: null },
      { uuid: 'GPU-b' },
    ],
  })
})

test('a call that hangs is killed after its time, with all it has started', async () => {
  const gpus = fakeGpus()
  gpus.mode = 'hang'
  const reader = new GpuReader({ timeoutMs: 300 })
  const begun = performance.now()
  expect(await reader.read()).toEqual({ kind: 'failed', why: 'nvidia-smi gave no answer within 300 ms' })
  expect(performance.now() - begun).toBeLessThan(2000)
  await until(() => childrenOf(process.pid, 'sleep').length === 0, 'the hanging program to be gone')

  gpus.mode = 'works'
  expect(await until(async () => (await reader.read()).kind === 'read', 'the next reading')).toBe(true)
})

test('distinguishes a failing program from a missing one', async () => {
  const gpus = fakeGpus()
  gpus.mode = 'exit9'
  expect(await new GpuReader().read()).toMatchObject({
    kind: 'failed',
    why: expect.stringMatching(/^nvidia-smi exited with code 9: NVIDIA-SMI has failed/),
  })
  const empty = mkdtempSync(join(tmpdir(), 'empty-'))
  undo.push(() => rmSync(empty, { recursive: true }))
  expect(await new GpuReader({ program: join(empty, 'nvidia-smi') }).read()).toEqual({ kind: 'absent' })
})

test('the devices are reported at the start, and again when something of them changes', async () => {
  const gpus = fakeGpus()
  const { seen } = watch([AUTO])
  await seen('both GPUs', (readings) => readings.length === 2)
  const free = gpus.take('GPU-b', 1024 * MIB)
  const used = await seen('a stranger', (readings) => byKey(readings, 'GPU-b')?.used === 1024 * MIB)
  expect(byKey(used, 'GPU-b')).toMatchObject({
    budget: 'vram',
    total: 8192 * MIB,
    free: 7168 * MIB,
    lost: false,
  })
  expect(byKey(used, 'GPU-b')!.ageMs).toBeLessThan(1000)
  free()
  await seen('the memory to be back', (readings) => byKey(readings, 'GPU-b')?.used === 0)
})

test('a GPU that disappears is reported as lost, and as there when it is back', async () => {
  const gpus = fakeGpus()
  const { devices, seen, logged } = watch([AUTO])
  await seen('both GPUs', (readings) => readings.length === 2)
  gpus.remove('GPU-b')
  void devices.expectChange()
  await seen('the loss', (readings) => byKey(readings, 'GPU-b')?.lost === true)
  expect(logged).toContain('a GPU disappeared: it gets no new work')
  gpus.add({ uuid: 'GPU-b', totalMiB: 8192 })
  void devices.expectChange()
  await seen('its return', (readings) => byKey(readings, 'GPU-b')?.lost === false)

  gpus.mode = 'lost'
  void devices.expectChange()
  const left = await seen(
    'the loss that a message tells of',
    (readings) => byKey(readings, 'GPU-a')?.lost === true,
  )
  expect(byKey(left, 'GPU-b')).toMatchObject({ lost: false })
})

test('marks GPUs as lost once the program is gone, reports it once, and restores them when it is back', async () => {
  const gpus = fakeGpus()
  const { devices, seen, logged, reports } = watch([AUTO])
  await seen('both GPUs', (readings) => readings.length === 2)
  gpus.mode = 'exit9'
  await devices.refresh()
  gpus.installed = false
  void devices.expectChange()
  const lost = await seen('the loss', (readings) => readings.every((each) => each.lost))
  expect(lost).toMatchObject([{ key: 'GPU-a', total: 24_576 * MIB, free: null }, { key: 'GPU-b' }])
  const told = reports.length
  await devices.refresh()
  await devices.refresh()
  expect(reports.length).toBeGreaterThan(told)
  // It failed before it went: that it is gone does not mean that it can be read.
  expect(logged).toEqual([
    expect.stringMatching(/^the GPUs cannot be read/),
    'nvidia-smi disappeared from this machine: its GPUs get no new work until it is available again',
  ])
  gpus.installed = true
  gpus.mode = 'works'
  void devices.expectChange()
  await seen('their return', (readings) => readings.every((each) => !each.lost))
  expect(logged.slice(2)).toEqual(['a GPU is available again', 'a GPU is available again'])
})

test('keeps the last measurement, which ages, while the program hangs', async () => {
  const gpus = fakeGpus()
  const { devices, seen, logged, reports } = watch([AUTO], 300)
  await seen('both GPUs', (readings) => readings.length === 2)
  gpus.mode = 'hang'
  gpus.take('GPU-a', 1024 * MIB)
  void devices.expectChange()
  await until(
    () => logged.some((line) => line.startsWith('the GPUs cannot be read')),
    'the trouble to be noticed',
  )
  const old = await seen('an old reading', (readings) => (byKey(readings, 'GPU-a')?.ageMs ?? 0) > 4000)
  expect(byKey(old, 'GPU-a')).toMatchObject({ used: 0, lost: false })
  expect(await devices.usedNow()).toBeUndefined()
  expect(logged.filter((line) => line.startsWith('the GPUs cannot be read'))).toHaveLength(1)

  gpus.mode = 'works'
  await seen('the present', (readings) => byKey(readings, 'GPU-a')?.used === 1024 * MIB)
  expect(logged).toContain('the GPUs can be read again')
  expect(reports.length).toBeGreaterThan(2)
})

test('offers no GPUs that were never read; missing values are null', async () => {
  const gpus = fakeGpus()
  gpus.mode = 'exit9'
  const declared: DeviceBudget = { name: 'ram', auto: false, declared: { big: 100 } }
  const { seen, devices } = watch([AUTO, declared])
  const readings = await seen('the declared one alone', (each) => each.length === 1)
  expect(readings).toMatchObject([{ budget: 'ram', key: 'box/big', total: 100, free: null, ageMs: null }])
  gpus.mode = 'na'
  void devices.expectChange()
  const all = await seen('the GPUs', (each) => each.length === 3)
  expect(byKey(all, 'GPU-a')).toMatchObject({ total: null, used: null, free: null })
})

test('who has no budget with devices starts no program; who is not heard tells it again', async () => {
  const gpus = fakeGpus()
  const idle = watch([])
  await until(() => idle.reports.length === 1, 'the question for budgets')
  expect(idle.reports).toEqual([[]])
  expect(gpus.calls).toEqual([])

  const { seen, source, devices, logged } = watch([AUTO])
  await seen('both GPUs', (readings) => readings.length === 2)
  source.away = true
  gpus.take('GPU-a', MIB)
  devices.startOver()
  await until(() => logged.some((line) => line.startsWith('could not report the devices')), 'the failure')
  source.away = false
  await seen('the report', (readings) => byKey(readings, 'GPU-a')?.used === MIB)
})
