import type { Attempt } from '../attempt.ts'
import { gpuIndexOf } from './offer-devices.ts'

/**
 * What a program is told of its devices and its model.
 *
 * CUDA sees just those devices. It counts GPUs by speed unless it is told to count them by their place on the bus, as
 * `nvidia-smi` does: uuids are beyond doubt, the numbers of declared devices (`gpu0`) are not without `CUDA_DEVICE_ORDER`.
 * Where a device is neither, CUDA's own variables are left as they are.
 */
export function deviceVariables({
  devices,
  model,
}: Pick<Attempt, 'devices' | 'model'>): Record<string, string> {
  const named = model === undefined ? {} : { SLUICE_MODEL: model.name }
  if (devices === undefined || devices.length === 0) return named
  const visible = devices.map(cudaNameOf)
  return {
    ...named,
    SLUICE_DEVICES: devices.join(','),
    ...(!visible.includes(undefined) && {
      CUDA_DEVICE_ORDER: 'PCI_BUS_ID',
      CUDA_VISIBLE_DEVICES: visible.join(','),
    }),
  }
}

function cudaNameOf(key: string): string | undefined {
  if (/^(?:GPU|MIG)-/.test(key)) return key
  const index = gpuIndexOf(key.slice(key.lastIndexOf('/') + 1))
  return index === undefined ? undefined : String(index)
}
