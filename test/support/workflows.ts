import type { Sluice, TreeNode } from '../../src/index.ts'
import type { Sql } from './database.ts'
import { until } from './until.ts'

/** The nodes of a tree that match, wherever they are, upper ones first. */
export function nodesOf(top: TreeNode, matches: (node: TreeNode) => boolean = () => true): TreeNode[] {
  const found: TreeNode[] = []
  let level = [top]
  while (level.length > 0) {
    found.push(...level.filter(matches))
    level = level.flatMap(({ children }) => children)
  }
  return found
}

export function stepOf(top: TreeNode, step: string): TreeNode {
  const [node] = nodesOf(top, (each) => each.step === step)
  if (node === undefined) throw new Error(`job ${top.id} has no step ${step}`)
  return node
}

/** Waits for the end of a job, however it ends. */
export async function ended(app: Sluice, id: string): Promise<string> {
  return until(async () => {
    const { status, finishedAt } = await app.getJob(id)
    return finishedAt === null ? undefined : status
  }, `job ${id} to end`)
}

/** What must hold of a tree in which nothing is active, whatever has happened to it. */
export async function findTreeFaults(sql: Sql): Promise<string[]> {
  const rows = await sql<{ fault: string }>(
    `select 'fan-out ' || c.job_id || ' counts ' || c.completed || '/' || c.failed || '/' || c.cancelled || ' of ' || c.total
            || ', tokens ' || c.tokens || '; there are ' || k.completed || '/' || k.failed || '/' || k.cancelled || ' of ' || k.children as fault
       from sluice.composites c
       join sluice.jobs j on j.id = c.job_id and j.composite = 'fanout'
      cross join lateral (
        select count(*) filter (where x.state = 'completed') as completed, count(*) filter (where x.state = 'failed') as failed,
               count(*) filter (where x.state = 'cancelled') as cancelled, count(*) as children
          from sluice.jobs x where x.parent_id = c.job_id and x.superseded_at is null) k
      cross join lateral (
        select coalesce(sum(w.completed), 0) as completed, coalesce(sum(w.failed), 0) as failed,
               coalesce(sum(w.cancelled), 0) as cancelled, coalesce(sum(w.dropped), 0) as dropped
          from sluice.wakeups w where w.job_id = c.job_id) u
      where (c.completed + u.completed, c.failed + u.failed, c.cancelled + u.cancelled, c.total) is distinct from
            (k.completed, k.failed, k.cancelled, k.children)
         or c.tokens - u.dropped <> 0
     union all
     select 'job ' || j.id || ' is ' || j.state || ' below job ' || p.id || ', which is ' || p.state
       from sluice.jobs j join sluice.jobs p on p.id = j.parent_id where j.state < 'completed' and p.state >= 'completed'`,
  )
  return rows.map(({ fault }) => fault)
}
