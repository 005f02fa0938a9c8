import type { Queryable } from '../../db/database.ts'
import type { Attention } from '../../model/attention.ts'
import { formatDuration } from '../../model/duration.ts'
import { EXACT_DEPTH } from '../../model/limits.ts'
import type { WaitObstacle } from '../../model/wait-obstacle.ts'
import { lookAtQueues, type QueueSample } from '../../store/sample-queues.ts'
import { viewBudgets } from '../views/budget-view.ts'
import { type Finding, ok } from './finding.ts'
import { isReported } from './reported-obstacle.ts'

/** What is waiting, and why, unless a finding has already reported it. */
export async function checkQueues({
  db,
  told = [],
}: {
  db: Queryable
  told?: readonly Attention[]
}): Promise<Finding[]> {
  const waiting = (await lookAtQueues(db)).filter(({ depth }) => depth > 0)
  if (waiting.length === 0) return [ok('queues', 'no jobs are waiting')]
  const said = await askPolicy(db, waiting)
  const untold = waiting.filter(
    ({ obstacle, lane, task }) => obstacle === null || !isReported(told, { obstacle, lane, task }),
  )
  return untold.map(({ classId, lane, task, depth, oldestAt, waitedMs, obstacle, reason: seen }) => {
    const reason = said.get(classId) ?? seen
    const oldest =
      oldestAt === null
        ? ''
        : `, the oldest for ${formatDuration(Math.max(0, Math.round(waitedMs / 1000)) * 1000)}`
    const found = `${depth === EXACT_DEPTH ? 'at least ' : ''}${depth} waiting in lane ${lane}${oldest}`
    const check = `task ${task}`
    if (obstacle === null) return ok(check, `${found}; nothing is blocking it`)
    return { check, level: 'note', found: `${found}: ${reason}`, advice: adviceFor(obstacle, lane, task) }
  })
}

/** What the budget policy says about waiting jobs, including operators' limits. */
async function askPolicy(
  db: Queryable,
  waiting: readonly QueueSample[],
): Promise<ReadonlyMap<number, string>> {
  const drawing = waiting.filter(({ obstacle }) => obstacle === 'budget')
  if (drawing.length === 0) return new Map()
  const { queues } = await viewBudgets(db)
  return new Map(
    drawing.flatMap(({ classId, lane, task }) => {
      const found = queues.find((queue) => queue.lane === lane && queue.task === task)
      return found === undefined ? [] : [[classId, found.reason] as const]
    }),
  )
}

function adviceFor(obstacle: WaitObstacle, lane: string, task: string): string {
  switch (obstacle) {
    case 'budget':
      return 'sluice devices shows what holds it, and what comes next'
    case 'labels':
      return 'start a worker with these labels: sluice worker --label NAME=VALUE'
    case 'withdrawn':
      return 'provide what is missing; each worker tries again within a minute'
    case 'crash':
      return 'wait, or restart the workers that sluice doctor names'
    case 'silent':
    case 'no_worker':
      return `start a worker with task ${task}`
    case 'lane_paused':
      return `sluice resume ${lane} resumes it`
    case 'lane_closed':
      return `sluice lanes set ${lane} --slots NUMBER opens it`
    case 'draining':
      return 'sluice workers shows them; sluice workers undrain NAME undrains one'
    case 'lane_full':
    case 'lane_held':
      return `sluice lanes set ${lane} --slots NUMBER gives it more, if the machines can run more`
    case 'processes':
      return 'start a worker on another machine, or one with a larger process pool: processes in the config'
    case 'capacity':
    case 'per_worker':
      return 'start another worker, or one with a larger --capacity'
    default:
      return obstacle satisfies never
  }
}
