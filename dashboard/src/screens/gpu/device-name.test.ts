import { expect, test } from 'vitest'
import { deviceName } from './device-name.ts'

const one = { key: 'GPU-4f1a-1', name: 'NVIDIA A100', host: 'a' }

test('distinguishes devices of one name on one machine by the start of their keys, or by whole keys', () => {
  const elsewhere = { ...one, key: 'GPU-9', host: 'b' }
  const beside = { ...one, key: 'GPU-7c22-1' }
  const alike = { ...one, key: 'GPU-4f1a-2' }
  expect(deviceName(one, [one, elsewhere])).toBe('NVIDIA A100')
  expect(deviceName(one, [one, beside])).toBe('NVIDIA A100 GPU-4f1a')
  expect(deviceName(one, [one, beside, alike])).toBe('NVIDIA A100 GPU-4f1a-1')
})
