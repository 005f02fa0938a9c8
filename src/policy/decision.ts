import type { Share } from './plan-input.ts'

export interface Plan {
  /** In the order in which they were decided; a later one is lost first when less fits than thought. */
  readonly starts: readonly Start[]
  readonly unloads: readonly Unload[]
  /** When a decision may come out differently though nothing happened in between. At most `MAX_REST_MS`. */
  readonly lookAgainMs: number
  /** For each class of the input that has jobs which do not all start. */
  readonly verdicts: readonly { readonly classId: number; readonly why: Verdict }[]
}

/** `count` jobs of a class on one copy of its model, or without a model on the same devices. */
export interface Start {
  readonly classId: number
  readonly count: number
  readonly model: string | null
  /** One per device: `resident` is charged once, for the copy, and `perJob` for each job. */
  readonly deviceUses: readonly DeviceUse[]
  /** The copy is not there yet: the first job on it loads it. Several starts may share one new copy. */
  readonly newResident: boolean
}

export interface DeviceUse {
  readonly budget: string
  readonly device: string
  /** Memory of the model; 0 for a copy that is there, and without a model. */
  readonly resident: number
  /** What each job takes. */
  readonly perJob: number
}

export interface Unload {
  /** `ResidentView.id` */
  readonly resident: string
  readonly model: string
  readonly shares: readonly Share[]
  /** The model that gets the room; `null` for jobs without one, and where a device was made smaller. */
  readonly inFavourOf: string | null
}

/** Why a class gets nothing, or not all it could. */
export type Verdict =
  | { readonly kind: 'no-capacity' }
  | { readonly kind: 'lane-full' }
  /** `parallel` jobs of the model run on each copy of it. */
  | { readonly kind: 'parallel'; readonly model: string; readonly devices: readonly string[] }
  | {
      readonly kind: 'shared-full'
      readonly budget: string
      readonly need: number
      readonly room: number
    }
  /** More than any device offered here has, or more devices than are offered. */
  | {
      readonly kind: 'too-big'
      readonly budget: string
      readonly need: number
      readonly devices: number
      readonly largest: number
      readonly offered: number
    }
  /** Waits for room on a device that others hold. `until`: when it is estimated to start; `null`: unknown. */
  | {
      readonly kind: 'held'
      readonly budget: string
      readonly device: string
      readonly need: number
      readonly room: number
      readonly by: readonly string[]
      readonly until: number | null
    }
  /** It comes next on this device: nothing else starts there, and what is in the way is unloaded when it is idle. */
  | {
      readonly kind: 'next'
      readonly budget: string
      readonly device: string
      readonly by: readonly string[]
    }
  /** There would be room on the device, but it is kept for another that comes first: a model, or jobs without one. */
  | { readonly kind: 'behind'; readonly model: string | null; readonly device: string }
  /** Another worker has the model loaded and will be sooner than a load here. */
  | { readonly kind: 'warm-elsewhere'; readonly model: string; readonly devices: readonly string[] }

export const MAX_REST_MS = 60_000
