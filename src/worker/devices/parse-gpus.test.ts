import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { isSameBus, parseGpus, parseInstances, parseLostBuses, parseUnknownField } from './parse-gpus.ts'

const MIB = 1024 ** 2
const recorded = (name: string) =>
  readFileSync(new URL(`../../../test/support/fixtures/nvidia-smi/${name}`, import.meta.url), 'utf8')

const H200 = {
  uuid: 'GPU-0855af70-e82d-72f2-b86c-3a835999b974',
  index: 0,
  name: 'NVIDIA H200',
  bus: '00000000:00:06.0',
  total: 143_771 * MIB,
  used: 0,
  free: 143_156 * MIB,
  lost: false,
  mig: false,
}

test('what an H200 answered is read, with or without columns that nobody asked for', () => {
  expect(parseGpus(recorded('h200.csv'))).toEqual([H200])
  expect(parseGpus(recorded('h200-more.csv'))).toEqual([H200])
})

test('columns may come in any order, under older names, with other units or none', () => {
  const text = [
    'memory.free [GiB], gpu_name, brand, gpu_uuid, memory.total, memory.used [MiB]',
    '20 GiB, Tesla T4, Tesla, GPU-1, 24576, 3072 MiB',
  ].join('\r\n')
  expect(parseGpus(text)).toMatchObject([
    {
      uuid: 'GPU-1',
      name: 'Tesla T4',
      index: null,
      total: 24_576 * MIB,
      used: 3072 * MIB,
      free: 20 * 1024 * MIB,
    },
  ])
})

test('what the driver does not tell is null, and what is left is worked out where it can be', () => {
  const text = [
    'index, uuid, name, memory.total [MiB], memory.used [MiB], memory.free [MiB]',
    '0, GPU-a, One, [N/A], [N/A], [N/A]',
    '1, GPU-b, Two, 1000 MiB, 300 MiB, [Not Supported]',
    '2, GPU-c, Three, 1000 MiB, [Unknown Error], ERR!',
  ].join('\n')
  expect(parseGpus(text)).toMatchObject([
    { uuid: 'GPU-a', total: null, used: null, free: null },
    { uuid: 'GPU-b', total: 1000 * MIB, used: 300 * MIB, free: 700 * MIB },
    { uuid: 'GPU-c', total: 1000 * MIB, used: null, free: null },
  ])
})

test('warnings, other lines and rows without a uuid are passed over; a row that comes twice counts once', () => {
  const text = [
    'WARNING: infoROM is corrupted at gpu 0000:02:00.0',
    '',
    'uuid, name, memory.total [MiB]',
    '[N/A], No uuid, 5 MiB',
    'GPU-a, First, 10 MiB',
    'GPU-a, First, 10 MiB',
    'torn, li',
    'not-a-uuid, Stranger, 10 MiB',
  ].join('\n')
  expect(parseGpus(text).map((gpu) => gpu.uuid)).toEqual(['GPU-a'])
})

test('no header, no GPUs', () => {
  expect(parseGpus('')).toEqual([])
  expect(parseGpus('No devices were found\n')).toEqual([])
  expect(parseGpus('0, GPU-a, 10 MiB\n')).toEqual([])
})

test('a GPU that has fallen off the bus is lost, in its row or in an error message', () => {
  const row =
    'uuid, name, pci.bus_id, memory.free [MiB]\nGPU-a, [GPU is lost], 00000000:01:00.0, [GPU is lost]'
  expect(parseGpus(row)).toMatchObject([{ uuid: 'GPU-a', lost: true, free: null }])

  const message =
    'Unable to determine the device handle for GPU0: 0000:02:00.0: GPU is lost.  Reboot the system to recover this GPU'
  const other = 'Unable to determine the device handle for GPU 0000:3B:00.0: GPU is lost. Reboot the system'
  expect(parseLostBuses(other)).toEqual(['0000:3B:00.0'])
  expect(parseLostBuses(message)).toEqual(['0000:02:00.0'])
  expect(parseLostBuses('Unable to determine the device handle for GPU 0000:3B:00.0: Not Found')).toEqual([])
  expect(isSameBus('0000:02:00.0', '00000000:02:00.0')).toBe(true)
  expect(isSameBus('0000:02:00.0', '00000000:03:00.0')).toBe(false)
})

test('a field that the driver does not know is found in its message', () => {
  expect(parseUnknownField('Field "mig.mode.current" is not a valid field to query.')).toBe(
    'mig.mode.current',
  )
  expect(parseUnknownField('something else')).toBeUndefined()
})

test('instances of a GPU in MIG mode are devices with 95 % of the size in their name', () => {
  const text = [
    'GPU 0: NVIDIA A100-SXM4-80GB (UUID: GPU-5d5ba0d6)',
    '  MIG 1g.10gb     Device  0: (UUID: MIG-1111)',
    '  MIG 3g.40gb+me  Device  1: (UUID: MIG-GPU-5d5ba0d6/2/0)',
    'GPU 1: NVIDIA H200 (UUID: GPU-0855)',
  ].join('\n')
  expect(parseInstances(text)).toMatchObject([
    { uuid: 'MIG-1111', name: 'NVIDIA A100-SXM4-80GB MIG 1g.10gb', total: 9728 * MIB, free: null },
    { uuid: 'MIG-GPU-5d5ba0d6/2/0', total: 38_912 * MIB },
  ])
})
