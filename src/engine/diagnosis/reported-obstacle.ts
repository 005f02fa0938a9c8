import type { Attention } from '../../model/attention.ts'
import type { WaitObstacle } from '../../model/wait-obstacle.ts'

/** What blocks jobs of a lane, or of a task in it. */
export interface Obstructed {
  readonly obstacle: WaitObstacle
  readonly lane: string
  readonly task: string
}

/** Whether what needs attention already names an obstacle, with what to do about it: findings report it once. */
export function isReported(reported: readonly Attention[], { obstacle, lane, task }: Obstructed): boolean {
  const has = (rule: string, subject: string) =>
    reported.some((each) => each.rule === rule && each.subject === subject)
  switch (obstacle) {
    case 'lane_paused':
    case 'lane_closed':
      return has('lane_paused', `lane ${lane}`)
    case 'silent':
      return reported.some(({ rule }) => rule === 'worker_silent')
    case 'no_worker':
      return has('task_without_worker', `task ${task}`)
    case 'labels':
      return has('labels_missing', `task ${task}`)
    case 'draining':
      return has('task_draining', `task ${task}`)
    case 'withdrawn':
      return has('task_withdrawn', `task ${task}`)
    case 'crash':
      return reported.some(({ rule }) => rule === 'server_crashed')
    default:
      return false
  }
}
