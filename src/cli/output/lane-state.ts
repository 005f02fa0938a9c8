interface StartLimits {
  readonly enabled: boolean
  readonly slots: number | null
}

/** Whether a lane starts jobs. With 0 slots it starts nothing, as `why` and `doctor` say too. */
export function laneState({ enabled, slots }: StartLimits): 'open' | 'closed' | 'paused' {
  if (!enabled) return 'paused'
  return slots === 0 ? 'closed' : 'open'
}
