import type { Queryable } from '../../db/database.ts'
import { type CompositeKind, type JobStatus, statusOf } from '../../model/job.ts'
import { checkJobId } from '../../model/job-id.ts'
import { type Branch, loadBranch, loadBranches } from '../../store/load-branches.ts'
import { bodyAt, type Step } from '../../workflow/graph.ts'
import { jobNotFound } from '../operate/job-control.ts'
import { findFanOutFailures } from '../workflows/fan-out-failure.ts'
import { GraphCache } from '../workflows/graph-cache.ts'
import { describeStep, type FanoutCounts } from './tree.ts'

/** A workflow or group as it is drawn: its steps with what each needs, and the jobs they have become. */
export interface GraphView {
  readonly job: GraphNode
  /** What it is part of, the root first, without itself. Of more than 20 levels the nearest. */
  readonly path: readonly Pick<GraphNode, 'id' | 'step' | 'index' | 'kind' | 'task' | 'status'>[]
  /** In the order they are written. Empty for a fan-out or a task, and before it has begun. */
  readonly steps: readonly GraphStep[]
}

export interface GraphStep {
  readonly step: string
  readonly kind: CompositeKind | 'task'
  /** The task or workflow; `null` for a group. */
  readonly runs: string | null
  readonly needs: readonly string[]
  readonly on: Step['on']
  /** Its condition as it is written. */
  readonly when: string | null
  /** Absent: the run has not come to it. */
  readonly job?: GraphNode
}

export interface GraphNode {
  readonly id: string
  readonly parentId: string | null
  readonly step: string | null
  readonly index: number | null
  readonly kind: CompositeKind | null
  readonly task: string
  readonly status: JobStatus
  /** Waits for another attempt. */
  readonly retrying: boolean
  readonly error: string | null
  readonly attempt: number
  readonly progress: number | null
  readonly message: string | null
  readonly readyAt: Date
  readonly startedAt: Date | null
  readonly finishedAt: Date | null
  /** Of a fan-out that has begun. */
  readonly counts?: FanoutCounts
}

/** As many steps as a definition may have are drawn. */
const MAX_STEPS = 2000
const MAX_LEVELS = 20

/**
 * The steps of a workflow or group with what they need, also those the run has not come to.
 *
 * Costs a few reads by key, whatever is below the steps.
 *
 * @throws {SluiceError} `JOB_NOT_FOUND`; `INVALID_ARGUMENT`.
 */
export async function loadGraph(db: Queryable, id: string): Promise<GraphView> {
  const top = await loadBranch(db, checkJobId(id))
  if (top === undefined) throw jobNotFound(db, id)
  const children = top.kind === 'fanout' ? [] : await loadBranches(db, [top.id], MAX_STEPS)
  const failing = await findFanOutFailures(db, [top, ...children].filter(runs))
  const toNode = (branch: Branch) => toGraphNode(branch, failing.get(branch.id))
  const steps = await loadSteps(db, top, children, toNode)
  return { job: toNode(top), path: await loadAbove(db, top), steps }
}

function runs({ kind, state }: Branch): boolean {
  return kind === 'fanout' && state === 'running'
}

async function loadSteps(
  db: Queryable,
  { kind, graph, node }: Branch,
  children: readonly Branch[],
  toNode: (branch: Branch) => GraphNode,
): Promise<GraphStep[]> {
  if (kind === null || kind === 'fanout' || graph === null || node === null) return []
  const graphs = new GraphCache(db)
  await graphs.load([graph])
  const byIndex = new Map(children.map((child) => [child.index, child]))
  return bodyAt(graphs.get(graph), node).steps.map((step, index) => {
    const child = byIndex.get(index)
    return { ...toGraphStep(step), ...(child !== undefined && { job: toNode(child) }) }
  })
}

function toGraphStep(step: Step): GraphStep {
  const { needs, on, when } = step
  return {
    ...describeStep(step),
    needs: [...needs],
    on,
    when: when === undefined ? null : typeof when === 'string' ? when : JSON.stringify(when),
  }
}

/** Reads by key, one for each level: the path that retries and traces read has every input in it. */
async function loadAbove(db: Queryable, top: Branch): Promise<GraphView['path']> {
  const above: Branch[] = []
  let parentId = top.parentId
  while (parentId !== null && above.length < MAX_LEVELS) {
    const parent = await loadBranch(db, parentId)
    if (parent === undefined) break
    above.unshift(parent)
    parentId = parent.parentId
  }
  return above.map(({ id, step, index, kind, task, state }) => ({
    ...{ id, step, index, kind, task },
    status: statusOf(state),
  }))
}

/** A job of a tree as it is drawn. */
export function toGraphNode(branch: Branch, willFail?: string): GraphNode {
  const { id, parentId, step, index, kind, task, state, error, attempt, progress, message } = branch
  const { readyAt, startedAt, finishedAt, total, completed, failed, cancelled, window, inFlight } = branch
  return {
    ...{ id, parentId, step, index, kind, task, error, attempt, progress, message },
    ...{ readyAt, startedAt, finishedAt },
    status: statusOf(state),
    retrying: state === 'scheduled' && branch.failures > 0,
    ...(total !== null && {
      counts: {
        total,
        completed: completed ?? 0,
        failed: failed ?? 0,
        cancelled: cancelled ?? 0,
        window,
        inFlight: inFlight ?? 0,
        ...(branch.windowBefore !== null && { resumesAt: branch.windowBefore }),
        ...(willFail !== undefined && { willFail }),
      },
    }),
  }
}
