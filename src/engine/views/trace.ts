import type { Queryable } from '../../db/database.ts'
import { SluiceError } from '../../errors.ts'
import { type CompositeKind, isFailed, type JobState, type JobStatus, statusOf } from '../../model/job.ts'
import { checkJobId } from '../../model/job-id.ts'
import type { JsonValue } from '../../model/json.ts'
import { differences, type JsonDifference } from '../../model/json-difference.ts'
import { findGoodRun } from '../../store/find-good-run.ts'
import { findGoodSibling } from '../../store/find-good-sibling.ts'
import { type DecidedRow, loadDecisions } from '../../store/load-decisions.ts'
import { loadPath, type PathJob } from '../../store/load-path.ts'
import { loadRunPath, type RunPathJob } from '../../store/load-run-path.ts'
import { loadTreeNodes } from '../../store/load-tree-nodes.ts'
import { bodyOf, unhandledFailures } from '../../workflow/advance/retry-plan.ts'
import { jobNotFound } from '../operate/job-control.ts'
import { GraphCache } from '../workflows/graph-cache.ts'
import type { FanoutCounts } from './tree.ts'

/** A failure followed back to the root of its tree. */
export interface Trace {
  readonly root: string
  /** The job it begins with. */
  readonly failure: string
  /** The failure first, the root last. */
  readonly levels: readonly TraceLevel[]
  /** The first job on the way up whose input differs from a good one's; `null` when none does. */
  readonly suspect: string | null
}

export interface TraceLevel {
  readonly id: string
  readonly step: string | null
  readonly index: number | null
  /** `null`: a task. */
  readonly kind: CompositeKind | null
  readonly task: string
  readonly status: JobStatus
  readonly attempts: number
  readonly startedAt: Date | null
  readonly finishedAt: Date | null
  /** Of a group or fan-out: what it took from the scope around it. */
  readonly input: unknown
  readonly error: string | null
  /** The steps beside it whose results it was made from, as its templates say: what is wrong with its input came from there. */
  readonly sources?: readonly DecidedStep[]
  /** Of a workflow or group: what became of each of its steps. */
  readonly steps?: readonly DecidedStep[]
  /** Of a fan-out: how its children ended, and the places of some that failed. */
  readonly counts?: FanoutCounts
  readonly failedAt?: readonly number[]
  /** With a good job in the same place, where there is one. */
  readonly comparison?: Comparison
}

export interface DecidedStep {
  readonly step: string
  readonly id: string | null
  readonly status: JobStatus | 'not_reached'
  /** Why it failed, or was skipped. */
  readonly why: string | null
  /** It failed, and another step has made up for it. */
  readonly handled: boolean
}

export interface Comparison {
  /** The good job: another child of the same fan-out, or the one in the same place of the last good run. */
  readonly with: string
  readonly how: 'sibling' | 'last_good_run'
  /** Place of the sibling. */
  readonly index?: number
  /** Empty: the inputs are the same. */
  readonly differences: readonly JsonDifference[]
  /** There are more than these. */
  readonly more: boolean
}

const LIMITS = { steps: 1000, failures: 5 } as const
const MOST_DIFFERENCES = 20

/**
 * From a failure back to the root. Of a composite, the failure is the first one below it that nothing has made up for;
 * of a single job, that job whatever its state: it can be compared with a good one before anything has failed for good.
 *
 * @param options.owner Compares with no run that somebody else submitted.
 * @throws {SluiceError} `ILLEGAL_TRANSITION` when it is a composite and nothing has failed in it; `JOB_NOT_FOUND`.
 */
export async function trace(
  db: Queryable,
  id: string,
  options: { readonly owner?: string } = {},
): Promise<Trace> {
  return new Tracer(db, options.owner).trace(checkJobId(id))
}

class Tracer {
  readonly #db: Queryable
  readonly #owner: string | undefined
  readonly #graphs: GraphCache

  constructor(db: Queryable, owner: string | undefined) {
    this.#db = db
    this.#owner = owner
    this.#graphs = new GraphCache(db)
  }

  async trace(id: string): Promise<Trace> {
    const [job] = await loadPath(this.#db, id)
    if (job === undefined) throw jobNotFound(this.#db, id)
    const failure = await this.#findFailure(job)
    const path = await loadPath(this.#db, failure)
    const root = path.at(-1)!
    const levels = await this.#levels(path)
    const suspect = levels.find(({ comparison }) => (comparison?.differences.length ?? 0) > 0)
    return { root: root.id, failure, levels, suspect: suspect?.id ?? null }
  }

  /** Down from a composite to where it went wrong. Its own fault where all below it is well. */
  async #findFailure(job: PathJob): Promise<string> {
    let at: Pick<DecidedRow, 'id' | 'kind' | 'state' | 'graph' | 'node'> = job
    while (at.kind !== null) {
      const rows = await loadDecisions(this.#db, [at.id], LIMITS)
      const next = await this.#firstFailure(at, rows)
      if (next === undefined) break
      at = next
    }
    if (at.kind !== null && !isFailed(at.state)) {
      throw new SluiceError(
        'ILLEGAL_TRANSITION',
        `job ${job.id} is ${statusOf(job.state)} and nothing in it has failed, so there is no failure to trace`,
        { details: { jobId: job.id, status: statusOf(job.state) } },
      )
    }
    return at.id
  }

  async #firstFailure(
    { kind, graph, node }: Pick<DecidedRow, 'kind' | 'graph' | 'node'>,
    rows: readonly DecidedRow[],
  ): Promise<DecidedRow | undefined> {
    if (graph === null || node === null) return undefined
    await this.#graphs.load([graph])
    const failures = kind === 'fanout' ? rows : unhandledFailures(bodyOf({ graph, node }, this.#graphs), rows)
    return failures.toSorted(byBlame)[0]
  }

  async #levels(path: readonly PathJob[]): Promise<TraceLevel[]> {
    const composites = path.filter(({ kind }) => kind !== null).map(({ id }) => id)
    const rows = await loadDecisions(this.#db, composites, LIMITS)
    await this.#graphs.load(path.map(({ graph }) => graph))
    const fanouts = path.filter(({ kind }) => kind === 'fanout').map(({ id }) => id)
    const counts = new Map((await loadTreeNodes(this.#db, fanouts)).map((row) => [row.id, row]))
    const good = await this.#goodRun(path)
    const steps = new Map(
      path
        .filter(({ kind }) => kind === 'workflow' || kind === 'group')
        .map((job) => [
          job.id,
          this.#steps(
            job,
            rows.filter(({ parentId }) => parentId === job.id),
          ),
        ]),
    )
    const levels: TraceLevel[] = []
    for (const [at, job] of path.entries()) {
      const inside = rows.filter(({ parentId }) => parentId === job.id)
      const parent = path[at + 1]
      const sources = this.#sources(job, parent, steps.get(parent?.id ?? '') ?? [])
      const own = steps.get(job.id)
      const comparison = await this.#compare(job, parent, good.get(path.length - 1 - at))
      const { id, step, index, kind, task, attempts, startedAt, finishedAt, input, error } = job
      levels.push({
        ...{
          id,
          step,
          index,
          kind,
          task,
          status: statusOf(job.state),
          attempts,
          startedAt,
          finishedAt,
          input,
          error,
        },
        ...(kind === 'fanout' ? fanoutLevel(counts.get(id), inside) : {}),
        ...(sources.length > 0 && { sources }),
        ...(own !== undefined && { steps: own }),
        ...(comparison === undefined ? {} : { comparison }),
      })
    }
    return levels
  }

  #steps({ graph, node }: PathJob, rows: readonly DecidedRow[]): DecidedStep[] {
    if (graph === null || node === null) return []
    const body = bodyOf({ graph, node }, this.#graphs)
    const unhandled = new Set(unhandledFailures(body, rows))
    const byPlace = new Map(rows.map((row) => [row.index, row]))
    return body.steps.map(({ step, position }) => {
      const row = byPlace.get(position)
      if (row === undefined)
        return { step: step.name, id: null, status: 'not_reached', why: null, handled: false }
      const handled = isFailed(row.state) && !unhandled.has(row)
      return { step: step.name, id: row.id, status: statusOf(row.state), why: row.error, handled }
    })
  }

  /** Of a step: those beside it that its templates read. Of an item of a fan-out they are those of the fan-out, a level up. */
  #sources(job: PathJob, parent: PathJob | undefined, beside: readonly DecidedStep[]): DecidedStep[] {
    if (parent === undefined || parent.graph === null || parent.node === null) return []
    const plan =
      beside.length > 0 ? bodyOf({ graph: parent.graph, node: parent.node }, this.#graphs) : undefined
    const reads = plan?.steps.find(({ position }) => position === job.index)?.templates.reads ?? []
    const names = new Set(reads.filter(([root]) => root === 'steps').map(([, name]) => name))
    return beside.filter(({ step }) => names.has(step))
  }

  /** By depth, the jobs along the same path in the last run of the workflow that completed. */
  async #goodRun(path: readonly PathJob[]): Promise<Map<number, RunPathJob>> {
    const root = path.at(-1)!
    if (root.node === null) return new Map()
    const run = await findGoodRun(this.#db, root.node, root.id, this.#owner)
    if (run === undefined) return new Map()
    const jobs = await loadRunPath(this.#db, run, path.slice(0, -1).reverse())
    return new Map(jobs.filter(({ state }) => state === 'completed').map((job) => [job.depth, job]))
  }

  async #compare(
    job: PathJob,
    parent: PathJob | undefined,
    other: RunPathJob | undefined,
  ): Promise<Comparison | undefined> {
    const sibling =
      parent?.kind === 'fanout' ? await findGoodSibling(this.#db, parent.id, job.index!) : undefined
    const good = sibling ?? other
    if (good === undefined) return undefined
    const found = differences(comparable(job, job.input), comparable(job, good.input), MOST_DIFFERENCES + 1)
    return {
      with: good.id,
      ...(sibling === undefined
        ? { how: 'last_good_run' as const }
        : { how: 'sibling' as const, index: sibling.index }),
      differences: found.slice(0, MOST_DIFFERENCES),
      more: found.length > MOST_DIFFERENCES,
    }
  }
}

/** A failure explains more than a cancel, which often follows from one; then the earlier one. */
function byBlame(left: DecidedRow, right: DecidedRow): number {
  return (
    Number(left.state === 'cancelled') - Number(right.state === 'cancelled') ||
    time(left.finishedAt) - time(right.finishedAt) ||
    left.index - right.index
  )
}

function time(date: Date | null): number {
  return date?.getTime() ?? Number.POSITIVE_INFINITY
}

function fanoutLevel(
  row: FanoutCounts | undefined,
  failures: readonly { readonly index: number; readonly state: JobState }[],
): Partial<TraceLevel> {
  if (row === undefined) return {}
  const { total, completed, failed, cancelled, window, inFlight } = row
  return {
    counts: { total, completed, failed, cancelled, window, inFlight },
    failedAt: failures.filter(({ state }) => state === 'failed').map(({ index }) => index),
  }
}

/** The scope of a group in a fan-out has its place in it, which is another for each. */
function comparable({ kind }: PathJob, input: unknown): JsonValue {
  if (kind !== 'group' || typeof input !== 'object' || input === null) return input as JsonValue
  const { index: _, ...rest } = input as Record<string, JsonValue>
  return rest
}
