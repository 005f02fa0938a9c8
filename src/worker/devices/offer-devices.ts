import type { DeviceBudget, DeviceReading } from '../../model/device.ts'
import type { GpuAnswer } from './gpu-reader.ts'
import { type Gpu, isSameBus } from './parse-gpus.ts'

/** What is known of the GPUs of this machine. */
export interface GpuSnapshot {
  /** `unknown`: nothing has been read yet. `none`: the machine has none that could be read. */
  readonly state: 'unknown' | 'none' | 'known'
  readonly gpus: readonly Gpu[]
  /** When the memory was read, in milliseconds of the same clock as `now`. */
  readonly readAt: number
}

export const NO_SNAPSHOT: GpuSnapshot = { state: 'unknown', gpus: [], readAt: 0 }

/**
 * What is known after an answer. A GPU that was there and is not any more is lost, and stays in the snapshot as such until it
 * is back. So are all of them once the program that showed them is gone: nobody can tell what is free there, and a machine
 * that had GPUs is not one without bounds. A failed reading changes nothing: what was measured gets old.
 */
export function learnGpus(before: GpuSnapshot, answer: GpuAnswer, now: number): GpuSnapshot {
  switch (answer.kind) {
    case 'failed':
      return before
    case 'absent':
      return before.state === 'known'
        ? { ...before, gpus: before.gpus.map(lostOf) }
        : { state: 'none', gpus: [], readAt: now }
    case 'read': {
      const seen = new Set(answer.gpus.map((gpu) => gpu.uuid))
      const isLost = (gpu: Gpu) =>
        gpu.bus !== null && answer.lostBuses.some((bus) => isSameBus(bus, gpu.bus!))
      const gone = before.gpus.filter((gpu) => !seen.has(gpu.uuid))
      // An error message in place of the list tells only of those it names.
      const silent = answer.gpus.length === 0 && answer.lostBuses.length > 0
      return {
        state: 'known',
        gpus: [
          ...answer.gpus.map((gpu) => (isLost(gpu) ? { ...gpu, lost: true } : gpu)),
          ...gone.map((gpu) => (silent && !isLost(gpu) ? gpu : lostOf(gpu))),
        ],
        readAt: silent ? before.readAt : now,
      }
    }
    default:
      return answer satisfies never
  }
}

function lostOf(gpu: Gpu): Gpu {
  return { ...gpu, lost: true, used: null, free: null }
}

/**
 * The devices a machine offers to the budgets.
 *
 * A machine without GPUs has one device without bounds for a budget whose devices are found by themselves. One whose GPUs
 * have not been read yet has none.
 *
 * @param visible `CUDA_VISIBLE_DEVICES` of this process.
 */
export function offerDevices(
  budgets: readonly DeviceBudget[],
  host: string,
  whole: GpuSnapshot,
  visible: string | undefined,
  now: number,
): DeviceReading[] {
  const hidden = visible !== undefined && /^\s*(?:-1|$)/.test(visible)
  const snapshot = { ...whole, gpus: visibleGpus(whole.gpus, visible) }
  return budgets.flatMap((budget) => {
    if (!budget.auto) return declaredDevices(budget, host, snapshot, now)
    const cpu = unmeasured(budget.name, `${host}/cpu`, 'cpu', null)
    // Who may use none need not know whether there are any.
    if (hidden) return [{ ...cpu, ageMs: 0 }]
    if (snapshot.state === 'none') return [cpu]
    return snapshot.gpus.map((gpu) => ({
      ...unmeasured(budget.name, gpu.uuid, gpu.name, gpu.total),
      ...measurement(gpu, snapshot, now),
    }))
  })
}

function declaredDevices(
  { name: budget, declared }: DeviceBudget,
  host: string,
  snapshot: GpuSnapshot,
  now: number,
): DeviceReading[] {
  return Object.entries(declared).map(([name, total]) => {
    const gpu = snapshot.gpus.find((each) => each.index !== null && each.index === gpuIndexOf(name))
    const device = unmeasured(budget, `${host}/${name}`, name, total)
    return gpu === undefined ? device : { ...device, ...measurement(gpu, snapshot, now) }
  })
}

function unmeasured(budget: string, key: string, name: string, total: number | null): DeviceReading {
  return { budget, key, name, total, used: null, free: null, ageMs: null, lost: false }
}

function measurement(
  gpu: Gpu,
  snapshot: GpuSnapshot,
  now: number,
): Pick<DeviceReading, 'used' | 'free' | 'ageMs' | 'lost'> {
  const { used, free, lost } = gpu
  const ageMs = Math.max(0, Math.round(now - snapshot.readAt))
  return { used, free, ageMs, lost }
}

/** A declared device named `gpu0` is the first GPU of the machine, in the order of the PCI bus. */
export function gpuIndexOf(name: string): number | undefined {
  const digits = /^(?:gpu|cuda)[:_-]?(\d{1,3})$/i.exec(name)?.[1]
  return digits === undefined ? undefined : Number(digits)
}

/** Whether anything of these budgets can be measured by reading GPUs. */
export function needsGpus(budgets: readonly DeviceBudget[]): boolean {
  return budgets.some(
    ({ auto, declared }) => auto || Object.keys(declared).some((name) => gpuIndexOf(name) !== undefined),
  )
}

/**
 * The GPUs that programs of this process may use, by `CUDA_VISIBLE_DEVICES`: uuids or their beginnings, or indexes. As for
 * CUDA, what stands behind an entry that is none does not count, and an empty value hides all.
 */
export function visibleGpus(gpus: readonly Gpu[], visible: string | undefined): readonly Gpu[] {
  if (visible === undefined) return gpus
  const chosen: Gpu[] = []
  for (const entry of visible.split(',').map((each) => each.trim())) {
    const gpu = gpus.find((each) =>
      /^\d+$/.test(entry) ? each.index === Number(entry) : entry !== '' && each.uuid.startsWith(entry),
    )
    if (gpu === undefined) break
    if (!chosen.includes(gpu)) chosen.push(gpu)
  }
  return chosen
}
