/** Why no worker takes a ready job, as `sample_v1` names it. Decisions compare this value, never its text. */
export type WaitObstacle =
  | 'crash'
  | 'lane_paused'
  /** Its lane has 0 slots. */
  | 'lane_closed'
  | 'no_worker'
  | 'labels'
  | 'draining'
  | 'withdrawn'
  | 'lane_full'
  | 'lane_held'
  | 'capacity'
  | 'per_worker'
  | 'processes'
  /** No worker that could take it has sent a heartbeat recently. */
  | 'silent'
  | 'budget'
