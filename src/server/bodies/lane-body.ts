import type { LaneBody, LaneOverridesBody } from '../../api/lanes.ts'
import type { LaneOverrides } from '../../engine/operate/lane-control.ts'
import type { Lane } from '../../store/list-lanes.ts'

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

export function toOverridesBody({ moved, deleted }: LaneOverrides): LaneOverridesBody {
  return {
    moved: moved.map((each) => ({ ...each, at: each.at.toISOString() })),
    deleted: deleted.map((each) => ({ ...each, at: each.at.toISOString() })),
  }
}
