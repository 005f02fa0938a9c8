import { SimQueues } from './sim-queues.ts'
import type { SimDevice, SimJob, SimModel, Workload } from './workload.ts'

export interface SimCopy {
  readonly id: string
  readonly model: SimModel
  readonly worker: string
  readonly devices: readonly string[]
  /** On each device, as the policy counts it. */
  charged: number
  readonly createdAt: number
  loadedAt: number | null
  unloading: boolean
  gone: boolean
  readonly jobs: Set<SimJob>
  idleSince: number | null
  lastUsed: number
}

/** What is known of a model so far. */
export interface Known {
  memory: number
  loadMs: number
  runMs: number
  restMs: number | null
  /** Of its last job. */
  endedAt: number | null
}

/** What a policy wants done. Jobs of `load` start once the model is loaded. */
export type Move =
  | { readonly kind: 'start'; readonly copy: SimCopy; readonly jobs: readonly SimJob[] }
  | {
      readonly kind: 'load'
      readonly model: SimModel
      readonly devices: readonly string[]
      readonly jobs: readonly SimJob[]
    }
  | { readonly kind: 'unload'; readonly copy: SimCopy }

/** Devices, copies and queues at one time of a simulation: what policies look at. */
export class Stage {
  now = 0
  readonly workload: Workload
  readonly queues: SimQueues
  readonly copies = new Map<string, SimCopy>()
  readonly lost = new Set<string>()
  /** What is known of a model so far: believed at first, then seen. */
  readonly known: Map<string, Known>

  constructor(workload: Workload) {
    this.workload = workload
    this.queues = new SimQueues(workload.models)
    this.known = new Map(
      workload.models.map(({ name, believed }) => [name, { ...believed, restMs: null, endedAt: null }]),
    )
  }

  devices(): readonly SimDevice[] {
    return this.workload.devices.filter(({ key }) => !this.lost.has(key))
  }

  /** Memory of a device that is not charged to anyone. */
  room(device: SimDevice): number {
    let room = device.memory
    for (const copy of this.copies.values())
      if (copy.devices.includes(device.key)) room -= copy.charged + copy.jobs.size * copy.model.perJob
    return room
  }

  /** What the policy charges for a copy. */
  memoryOf(model: SimModel): number {
    return this.known.get(model.name)!.memory
  }

  /** Copies that serve or will. */
  liveCopies(model: SimModel): SimCopy[] {
    return [...this.copies.values()].filter((copy) => copy.model === model && !copy.unloading)
  }

  /** Jobs that could be added to a copy now. */
  slots(copy: SimCopy): number {
    return copy.unloading ? 0 : copy.model.parallel - copy.jobs.size
  }
}
