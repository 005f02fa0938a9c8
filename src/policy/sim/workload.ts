import type { Rules } from '../plan-input.ts'

/** The one budget of a simulation. */
export const MEMORY = 'memory'

/** Everything that happens to the devices from outside: what a policy is tried on. Milliseconds and bytes. */
export interface Workload {
  readonly devices: readonly SimDevice[]
  readonly models: readonly SimModel[]
  /** In the order of their time. */
  readonly arrivals: readonly Arrival[]
  readonly losses: readonly Loss[]
  readonly rules: Rules
  /** Between the decision to unload a model and its memory being free. */
  readonly unloadMs: number
  /** Jobs at once on one worker. */
  readonly capacity: number
}

export interface SimDevice {
  readonly key: string
  readonly memory: number
  readonly worker: string
}

export interface SimModel {
  readonly name: string
  /** On each of its devices. */
  readonly memory: number
  readonly devices: number
  readonly perJob: number
  readonly loadMs: number
  /** Mean. */
  readonly runMs: number
  readonly parallel: number
  readonly pinned: boolean
  /** What the policy believes at first. */
  readonly believed: { readonly memory: number; readonly loadMs: number; readonly runMs: number }
}

export interface Arrival {
  readonly at: number
  /** Index into the models. */
  readonly model: number
  readonly runMs: number
  readonly priority: number
}

/** An arrival while it is played. */
export interface SimJob {
  readonly index: number
  readonly at: number
  readonly model: SimModel
  readonly runMs: number
  readonly priority: number
  /** Chosen for a copy; it may still wait for the load. */
  placed: boolean
  /** It was started once and lost its device, or ran out of memory. */
  returned: boolean
  startedAt: number | null
  endedAt: number | null
}

export interface Loss {
  readonly device: string
  readonly at: number
  readonly back: number | null
}
