import type { Queryable } from '../../db/database.ts'
import { EXACT_DEPTH } from '../../model/counted-up-to.ts'
import { formatDuration } from '../../model/duration.ts'
import { lookAtQueues, type QueueSample } from '../../store/sample-queues.ts'
import { viewBudgets } from '../budget-view.ts'
import { type Finding, ok } from '../finding.ts'

/** What waits, and what it waits for. */
export async function checkQueues({ db, now }: { db: Queryable; now: number }): Promise<Finding[]> {
  const waiting = (await lookAtQueues(db)).filter(({ depth }) => depth > 0)
  if (waiting.length === 0) return [ok('queues', 'nothing waits')]
  const said = await askPolicy(db, waiting)
  return waiting.map(({ classId, lane, task, depth, oldestAt, reason: seen }) => {
    const reason = said.get(classId) ?? seen
    const oldest =
      oldestAt === null
        ? ''
        : `, the oldest for ${formatDuration(Math.max(0, Math.round((now - oldestAt.getTime()) / 1000)) * 1000)}`
    const found = `${depth === EXACT_DEPTH ? 'at least ' : ''}${depth} waiting in lane ${lane}${oldest}`
    const check = `task ${task}`
    if (reason === null) return ok(check, `${found}; nothing stands in the way`)
    return { check, level: 'note', found: `${found}: ${reason}`, advice: adviceFor(seen!, lane, task) }
  })
}

/** How a sample says that budgets are what it waits for. */
const BUDGET = /^task \S+ waits for what it uses of /

/** What the policy of budgets says of those that wait for them, an operator's limit included. */
async function askPolicy(
  db: Queryable,
  waiting: readonly QueueSample[],
): Promise<ReadonlyMap<number, string>> {
  const drawing = waiting.filter(({ reason }) => reason !== null && BUDGET.test(reason))
  if (drawing.length === 0) return new Map()
  const { queues } = await viewBudgets(db)
  return new Map(
    drawing.flatMap(({ classId, lane, task }) => {
      const found = queues.find((queue) => queue.lane === lane && queue.task === task)
      return found === undefined ? [] : [[classId, found.reason] as const]
    }),
  )
}

function adviceFor(reason: string, lane: string, task: string): string {
  if (BUDGET.test(reason)) return 'sluice gpu shows what holds it, and what comes next'
  if (reason.includes('has the labels it requires'))
    return `start a worker with these labels: sluice worker --label NAME=VALUE`
  if (reason.includes('cannot start task'))
    return 'provide what is missing there; each worker tries again within a minute'
  if (reason.startsWith('PostgreSQL has recovered'))
    return 'wait, or restart the workers that sluice doctor names'
  if (reason.startsWith('no worker')) return `start a worker with task ${task}`
  if (reason.endsWith('is drained')) return `sluice resume ${lane}`
  if (reason.includes('is draining'))
    return 'sluice workers shows them; sluice workers undrain NAME brings one back'
  if (reason.includes('is full'))
    return `sluice lanes set ${lane} --slots NUMBER gives it more, if the machines bear it`
  return 'start another worker, or one with a larger --capacity'
}
