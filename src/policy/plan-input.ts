/**
 * What the policy sees of budgets, devices, models and queues: depths and heads, never the rows.
 *
 * Amounts are in the units of their budget (bytes for memory), finite and >= 0. Times are milliseconds of one clock.
 */
export interface PlanInput {
  readonly now: number
  /** Jobs this worker can start now. */
  readonly free: number
  /** Offered by this worker. A lost one is left out: copies that lie on it get no jobs. */
  readonly devices: readonly DeviceView[]
  /** Room of budgets that have no devices. `null`: unlimited. */
  readonly shared: ReadonlyMap<string, number | null>
  /** Copies of models on these devices, whoever loaded them, and copies elsewhere of the models in `queues`. */
  readonly residents: readonly ResidentView[]
  /** One for each class this worker may claim from. Those without jobs may be left out. */
  readonly queues: readonly QueueView[]
  readonly models: ReadonlyMap<string, ModelView>
  /** By budget. A budget that is not in it goes by `DEFAULT_RULES`. */
  readonly rules: ReadonlyMap<string, Rules>
}

export interface DeviceView {
  readonly key: string
  readonly budget: string
  /** `null`: unlimited. */
  readonly capacity: number | null
  /** What may be taken now; never negative. `null`: unlimited. */
  readonly room: number | null
  /** What is held beyond its capacity, which was made smaller; absent or 0: nothing. */
  readonly over?: number
}

/** One copy of a model, with all the devices it lies on. */
export interface ResidentView {
  /** Whatever tells the caller which one it is: the policy hands it back in `Unload`. */
  readonly id: string
  readonly model: string
  readonly shares: readonly Share[]
  /** Loaded by this worker, so its jobs can run here. */
  readonly mine: boolean
  /** `null` while it is being loaded. */
  readonly loadedAt: number | null
  /** Asked to go: it gets no jobs, and its memory is not free yet. */
  readonly unloading: boolean
  /** Jobs that run on it. */
  readonly running: number
  /** When its last job ended. `null` while one runs. */
  readonly idleSince: number | null
  readonly pinned: boolean
}

export interface Share {
  readonly budget: string
  readonly device: string
  readonly amount: number
}

/** `each` on every one of `devices` devices. For a shared budget `devices` is 1. */
export interface Need {
  readonly budget: string
  readonly devices: number
  readonly each: number
}

export interface QueueView {
  readonly classId: number
  readonly task: string
  readonly model: string | null
  /** Jobs that could start; a count that stops somewhere is fine. */
  readonly depth: number
  readonly head: HeadView
  /** Jobs of the model at once on one copy of it. */
  readonly parallel: number
  /** Of devices: the model's memory, or without a model what a job takes. Of shared budgets: what a job takes. */
  readonly uses: readonly Need[]
  /** What each running job adds on the devices of its model, and of shared budgets. Without a model it adds to `uses`. */
  readonly perJob: readonly Need[]
  /** Jobs that the lane allows to start now. */
  readonly most: number
}

export interface HeadView {
  /** With what ageing has added. Higher goes first. */
  readonly priority: number
  readonly waitingSince: number
  /** The job's own, where they differ from those of its class. */
  readonly uses: readonly Need[] | null
}

export interface ModelView {
  readonly loadMs: number
  /** Of one job. */
  readonly runMs: number
  /** How long it usually has no job before the next one comes. `null`: not seen yet. */
  readonly restMs: number | null
}

export interface Rules {
  /** A model that was loaded serves at least for this many times its load time before another takes its place. */
  readonly quantum: number
  /** From this wait on a model may take the place of one that has work. */
  readonly maxWaitMs: number
}

/** Chosen by simulation: docs/internals/budget-policy.md has the figures. */
export const DEFAULT_RULES: Rules = { quantum: 12, maxWaitMs: 180_000 }
/**
 * How much of what is known of a model's times is what was seen last. Three tenths forget a time within ten loads, and one that
 * came out ten times too long makes it less than four times too long.
 */
export const LEARNING = 0.3
/** Of a model nobody has said or seen anything about. */
export const UNKNOWN_MODEL: ModelView = { loadMs: 10_000, runMs: 5_000, restMs: null }
