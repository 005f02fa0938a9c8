import type { Queryable } from '../../db/database.ts'
import { type CompositeKind, isFinal, type JobStatus, statusOf } from '../../model/job.ts'
import {
  type Branch,
  loadBranch,
  loadBranches,
  loadBranchesInFlight,
  loadFailedBranches,
} from '../../store/load-branches.ts'
import { bodyAt, type Step } from '../../workflow/graph.ts'
import { jobNotFound } from '../operate/job-control.ts'
import type { FanoutCounts } from '../views/tree.ts'
import { GraphCache } from '../workflows/graph-cache.ts'

/** A job of a tree as it stands, or a step that has not begun. */
export interface WatchedNode {
  /** `undefined`: it has not begun. */
  readonly id: string | undefined
  /** The step; of the root its workflow; of a fan-out's child its place, as `[3]`. */
  readonly name: string
  readonly kind: CompositeKind | 'task'
  readonly status: JobStatus | 'pending'
  /** Tried again after a wait. */
  readonly retrying: boolean
  /** The steps it waits for while it is pending. */
  readonly needs: readonly string[]
  readonly error: string | null
  readonly attempt: number
  readonly progress: number | null
  readonly message: string | null
  /** When it could start, while it waits for a slot. */
  readonly readyAt: Date | undefined
  readonly startedAt: Date | undefined
  readonly finishedAt: Date | undefined
  /** Of a fan-out that has begun. */
  readonly counts: FanoutCounts | undefined
  /** Steps in the order they are written; of a fan-out those in flight, or that failed. Empty where it is folded. */
  readonly children: readonly WatchedNode[]
}

export interface WatchedTree {
  readonly root: WatchedNode
  /** The time of the database when it was so. */
  readonly at: Date
}

/** How deep a look goes. A recursion is deeper; what is below is folded. */
const MAX_LEVELS = 40
const MAX_STEPS = 2000
/** Children of a fan-out that are told apart, how many of them are looked into, and how far back they are searched. */
const IN_FLIGHT = 16
const OPENED = 3
const LOOK_BACK = 400
const FAILED = 3

/**
 * Looks at a tree again and again, for a view of it.
 *
 * A look costs a few statements, whatever the size of the tree: fan-outs are counted, what is deep or has completed is
 * folded. Branches that have ended are not loaded twice.
 */
export class TreeWatch {
  readonly #db: Queryable
  readonly #id: string
  readonly #graphs: GraphCache
  /** Children of what has ended: they stay as they are. */
  readonly #ended = new Map<string, readonly Branch[]>()

  constructor(db: Queryable, id: string) {
    this.#db = db
    this.#graphs = new GraphCache(db)
    this.#id = id
  }

  /** @throws {SluiceError} `JOB_NOT_FOUND`. */
  async look(): Promise<WatchedTree> {
    const root = await loadBranch(this.#db, this.#id)
    if (root === undefined) throw jobNotFound(this.#db, this.#id)
    const below = await this.#loadBelow(root)
    return { root: this.#toNode(root, below, undefined, 0), at: root.now }
  }

  /** The children of every branch that is opened, by the id of that branch. */
  async #loadBelow(root: Branch): Promise<Map<string, readonly Branch[]>> {
    const found = new Map<string, readonly Branch[]>()
    let level: readonly Branch[] = [root]
    for (let depth = 0; depth < MAX_LEVELS && level.length > 0; depth++) {
      const open = depth === 0 ? level : level.filter(isOpened)
      await this.#loadLevel(open, found)
      level = open.flatMap((branch) => {
        const children = (found.get(branch.id) ?? []).filter((child) => child.kind !== null)
        return branch.kind === 'fanout' ? children.slice(0, OPENED) : children
      })
    }
    await this.#graphs.load([root, ...[...found.values()].flat()].map(({ graph }) => graph))
    return found
  }

  async #loadLevel(open: readonly Branch[], found: Map<string, readonly Branch[]>): Promise<void> {
    for (const { id } of open) {
      const kept = this.#ended.get(id)
      if (kept !== undefined) found.set(id, kept)
    }
    const wanted = open.filter(({ id }) => !found.has(id))
    const bodies = wanted.filter(({ kind }) => kind !== 'fanout').map(({ id }) => id)
    const running = wanted.filter(({ kind, state }) => kind === 'fanout' && !isFinal(state))
    const failed = wanted.filter(({ kind, state }) => kind === 'fanout' && isFinal(state))
    const loaded = [
      bodies.length === 0 ? [] : loadBranches(this.#db, bodies, MAX_STEPS),
      running.length === 0
        ? []
        : loadBranchesInFlight(
            this.#db,
            running.map(({ id }) => id),
            IN_FLIGHT,
            LOOK_BACK,
          ),
      ...failed.map(({ id }) => loadFailedBranches(this.#db, id, FAILED)),
    ]
    const children = byParent((await Promise.all(loaded)).flat())
    for (const branch of wanted) {
      const own = children.get(branch.id) ?? []
      found.set(branch.id, own)
      if (isFinal(branch.state) && own.every(({ state }) => isFinal(state))) this.#ended.set(branch.id, own)
    }
  }

  #toNode(
    branch: Branch,
    below: ReadonlyMap<string, readonly Branch[]>,
    step: Step | undefined,
    depth: number,
  ): WatchedNode {
    const { id, kind, state } = branch
    return {
      id,
      name:
        depth === 0 || branch.step === null
          ? branch.task
          : step === undefined
            ? `[${branch.index}]`
            : branch.step,
      kind: kind ?? 'task',
      status: statusOf(state),
      retrying: state === 'scheduled' && branch.failures > 0,
      needs: [],
      error: branch.error,
      attempt: branch.attempt,
      progress: branch.progress,
      message: branch.message,
      readyAt: state === 'ready' ? branch.readyAt : undefined,
      startedAt: branch.startedAt ?? undefined,
      finishedAt: branch.finishedAt ?? undefined,
      counts: countsOf(branch),
      children: this.#childrenOf(branch, below, depth),
    }
  }

  #childrenOf(
    branch: Branch,
    below: ReadonlyMap<string, readonly Branch[]>,
    depth: number,
  ): readonly WatchedNode[] {
    const children = below.get(branch.id)
    if (children === undefined) return []
    if (branch.kind === 'fanout') {
      return children.map((child) => this.#toNode(child, below, undefined, depth + 1))
    }
    const byIndex = new Map(children.map((child) => [child.index, child]))
    return this.#stepsOf(branch).flatMap((step, index) => {
      const child = byIndex.get(index)
      if (child !== undefined) return [this.#toNode(child, below, step, depth + 1)]
      return isFinal(branch.state) ? [] : [pending(step)]
    })
  }

  #stepsOf({ graph, node }: Branch): readonly Step[] {
    return graph === null || node === null ? [] : bodyAt(this.#graphs.get(graph), node).steps
  }
}

/** What has completed is folded: its result is what matters. */
function isOpened({ kind, state, graph }: Branch): boolean {
  return (
    kind !== null && graph !== null && state !== 'waiting' && state !== 'skipped' && state !== 'completed'
  )
}

function byParent(branches: readonly Branch[]): Map<string | null, Branch[]> {
  const found = new Map<string | null, Branch[]>()
  for (const branch of branches) {
    const siblings = found.get(branch.parentId)
    if (siblings === undefined) found.set(branch.parentId, [branch])
    else siblings.push(branch)
  }
  return found
}

function countsOf(branch: Branch): FanoutCounts | undefined {
  const { total, completed, failed, cancelled, window, inFlight } = branch
  if (total === null) return undefined
  return {
    total,
    completed: completed ?? 0,
    failed: failed ?? 0,
    cancelled: cancelled ?? 0,
    window,
    inFlight: inFlight ?? 0,
    ...(branch.windowBefore !== null && { resumesAt: branch.windowBefore }),
  }
}

function pending(step: Step): WatchedNode {
  return {
    id: undefined,
    name: step.name,
    kind: step.each !== undefined ? 'fanout' : step.run.kind,
    status: 'pending',
    retrying: false,
    needs: step.needs,
    error: null,
    attempt: 0,
    progress: null,
    message: null,
    readyAt: undefined,
    startedAt: undefined,
    finishedAt: undefined,
    counts: undefined,
    children: [],
  }
}
