/**
 * What a worker offers to one budget that is counted per device, as it sees it. A report lists all of them: what the worker
 * offered before and does not list any more is offered no longer.
 */
export interface DeviceReading {
  /** The budget that jobs draw from. */
  readonly budget: string
  /** A GPU's uuid, or `HOST/NAME` of a declared device: two workers of one machine name the same device. */
  readonly key: string
  /** For people: `NVIDIA H200`, `gpu0`. */
  readonly name: string
  /** What it has in all, in the budget's unit. Null: it is not known or has no bounds. */
  readonly total: number | null
  /** As measured, for everybody who uses it. Null: not measured. */
  readonly used: number | null
  readonly free: number | null
  /**
   * Milliseconds since it was looked at when the report was sent. Null: nobody looked, so a device that is lost stays so. Of
   * `HOST/cpu`: not null where the worker is known to use no GPUs, whatever the machine has.
   */
  readonly ageMs: number | null
  /** It was there and is gone: it gets no work until it is back. */
  readonly lost: boolean
}

/** A budget that has devices, as a worker has to know it. */
export interface DeviceBudget {
  readonly name: string
  /** The devices are the GPUs of the machine. */
  readonly auto: boolean
  /** Else: what each machine has, by name. */
  readonly declared: Readonly<Record<string, number>>
}

/** A copy of a model: it lies on these devices, a part of it on each. */
export interface ModelCopy {
  readonly model: string
  /** Keys, sorted. */
  readonly devices: readonly string[]
}

/** A model on one of the devices it lies on. */
export interface ModelOnDevice {
  readonly model: string
  readonly device: string
}

/** What has become of a worker's models since the last cycle that took its news. Told again, it changes nothing. */
export interface ModelNews {
  /** They are loaded now. */
  readonly loaded: readonly LoadedModel[]
  /** Their memory is free again, or was never taken: the load failed, or nobody needed it any more. */
  readonly unloaded: readonly ModelOnDevice[]
  /** Jobs that have completed, without the time they waited for the model. */
  readonly ran: readonly { readonly model: string; readonly jobs: number; readonly totalMs: number }[]
}

export interface LoadedModel extends ModelCopy {
  /** How long loading took. Null: its programs load it themselves. */
  readonly loadMs: number | null
  /** By device: how much more was used after the load than before. Only where nothing else can have changed it. */
  readonly observed: Readonly<Record<string, number>>
}
