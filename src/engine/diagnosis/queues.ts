import type { Queryable } from '../../db/database.ts'
import { formatDuration } from '../../model/duration.ts'
import { EXACT_DEPTH, lookAtQueues } from '../../store/sample-queues.ts'
import { type Finding, ok } from '../finding.ts'

/** What waits, and what it waits for. */
export async function checkQueues({ db, now }: { db: Queryable; now: number }): Promise<Finding[]> {
  const waiting = (await lookAtQueues(db)).filter(({ depth }) => depth > 0)
  if (waiting.length === 0) return [ok('queues', 'nothing waits')]
  return waiting.map(({ lane, task, depth, oldestAt, reason }) => {
    const oldest =
      oldestAt === null
        ? ''
        : `, the oldest for ${formatDuration(Math.max(0, Math.round((now - oldestAt.getTime()) / 1000)) * 1000)}`
    const found = `${depth === EXACT_DEPTH ? 'at least ' : ''}${depth} waiting in lane ${lane}${oldest}`
    const check = `task ${task}`
    if (reason === null) return ok(check, `${found}; nothing stands in the way`)
    return { check, level: 'note', found: `${found}: ${reason}`, advice: adviceFor(reason, lane, task) }
  })
}

function adviceFor(reason: string, lane: string, task: string): string {
  if (reason.startsWith('no worker')) return `start a worker with task ${task}`
  if (reason.includes('disabled')) return `sluice resume ${lane}`
  if (reason.includes('is full'))
    return `sluice lanes set ${lane} --slots NUMBER gives it more, if the machines bear it`
  return 'start another worker, or one with a larger --capacity'
}
