import { expect, test } from 'vitest'
import { deviceVariables } from './device-variables.ts'

const model = { name: 'llama', devices: [], value: undefined, loaded: false }

test('a program sees just its GPUs, by uuid or by the number of a declared device', () => {
  expect(deviceVariables({ devices: ['GPU-a', 'MIG-b'], model })).toEqual({
    SLUICE_MODEL: 'llama',
    SLUICE_DEVICES: 'GPU-a,MIG-b',
    CUDA_VISIBLE_DEVICES: 'GPU-a,MIG-b',
    CUDA_DEVICE_ORDER: 'PCI_BUS_ID',
  })
  expect(deviceVariables({ devices: ['box/gpu1', 'box/gpu10'] })).toEqual({
    SLUICE_DEVICES: 'box/gpu1,box/gpu10',
    CUDA_VISIBLE_DEVICES: '1,10',
    CUDA_DEVICE_ORDER: 'PCI_BUS_ID',
  })
})

test('what says nothing to CUDA leaves its variables alone', () => {
  expect(deviceVariables({ devices: ['box/cpu'], model })).toEqual({
    SLUICE_MODEL: 'llama',
    SLUICE_DEVICES: 'box/cpu',
  })
  expect(deviceVariables({ devices: ['box/gpu0', 'box/disk'] })).toEqual({
    SLUICE_DEVICES: 'box/gpu0,box/disk',
  })
  expect(deviceVariables({ devices: [], model })).toEqual({ SLUICE_MODEL: 'llama' })
  expect(deviceVariables({})).toEqual({})
})
