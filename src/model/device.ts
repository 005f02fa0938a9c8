/**
 * What a worker offers to a budget that is counted per device, as the worker sees it. A report lists all devices: a
 * device that is missing from it is no longer offered.
 */
export interface DeviceReading {
  /** The budget that jobs use. */
  readonly budget: string
  /** A GPU's uuid, or `HOST/NAME` for a declared device. Two workers of one machine name the same device. */
  readonly key: string
  /** The name to show: `NVIDIA H200`, `gpu0`. */
  readonly name: string
  /** The total, in the budget's unit. Null if it is unknown or unlimited. */
  readonly total: number | null
  /** The measured use by all programs. Null if not measured. */
  readonly used: number | null
  readonly free: number | null
  /**
   * Milliseconds between the measurement and the report. Null if nothing was measured, in which case a lost device
   * stays lost. For
   * `HOST/cpu`: set when the worker is known not to use GPUs, whatever the machine has.
   */
  readonly ageMs: number | null
  /** The device has disappeared. It gets no work until it returns. */
  readonly lost: boolean
}

/** A budget with devices, as workers need it. */
export interface DeviceBudget {
  readonly name: string
  /** The devices are the GPUs of the machine. */
  readonly auto: boolean
  /** For declared devices: the amount of each, by name. */
  readonly declared: Readonly<Record<string, number>>
}

/** A loaded copy of a model. A part of it is on each of these devices. */
export interface ModelCopy {
  readonly model: string
  /** Device keys, sorted. */
  readonly devices: readonly string[]
}

/** A model on one of its devices. */
export interface ModelOnDevice {
  readonly model: string
  readonly device: string
}

/**
 * What happened to a worker's models since the last cycle that stored its model events. Repeating an event changes
 * nothing.
 */
export interface ModelNews {
  /** Models that are now loaded. */
  readonly loaded: readonly LoadedModel[]
  /** Models whose memory is free again or was never used, because the load failed or became unnecessary. */
  readonly unloaded: readonly ModelOnDevice[]
  /** Completed jobs, without the time they waited for the model. */
  readonly ran: readonly { readonly model: string; readonly jobs: number; readonly totalMs: number }[]
}

export interface LoadedModel extends ModelCopy {
  /** How long loading took. Null if its programs load it themselves. */
  readonly loadMs: number | null
  /** By device: how much memory use grew during the load. Present only if no other change can have caused it. */
  readonly observed: Readonly<Record<string, number>>
}
