import type { LaneBody } from '../api/lanes.ts'
import type { Lane } from '../store/list-lanes.ts'

export function toLaneBody(lane: Lane): LaneBody {
  const { slots, running, tasks, operatorSet, updatedAt } = lane
  return {
    ...lane,
    tasks: [...tasks],
    operatorSet: [...operatorSet],
    utilisation: slots === null || slots === 0 ? null : running / slots,
    updatedAt: updatedAt.toISOString(),
  }
}
