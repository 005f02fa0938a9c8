import type { Change } from './commit-stream.ts'

export type TreeRule =
  | 'window'
  | 'one child in a place'
  | 'composites hold nothing'
  | 'settled with its children'
  | 'counted once'
  | 'nothing begins below an end'

interface TreeJob {
  readonly state: string
  readonly composite: string | null
  readonly parent: string | null
  readonly place: number
  readonly isSuperseded: boolean
}

interface Composite {
  readonly window: number | null
  readonly total: number | null
  readonly ended: { readonly completed: number; readonly failed: number; readonly cancelled: number }
  readonly isClosing: boolean
}

/** What is known of a parent's children, those that a rerun replaced left out. */
interface Family {
  readonly places: Map<number, string>
  readonly states: Map<string, number>
  inFlight: number
  open: number
}

const ENDED = new Set(['completed', 'failed', 'cancelled', 'skipped'])

/**
 * The rules of trees, at every commit: a window is never exceeded, no place is filled twice, a composite holds neither
 * a slot nor a place in a queue, ends once its children have ended or as it stops them, and nothing begins below it
 * afterwards.
 *
 * Jobs come as `JobRows` shows them.
 *
 * In flight is what is released and has not ended. It may be more than a window that was made smaller, but it must not
 * grow then.
 */
export class TreeChecker {
  /** How much was replayed, to see that the rules were put to the test. */
  readonly seen = { settled: 0, released: 0, peak: 0 }
  readonly #report: (rule: TreeRule, what: string) => void
  readonly #jobs = new Map<string, TreeJob>()
  readonly #composites = new Map<string, Composite>()
  readonly #families = new Map<string, Family>()
  #isJudging = true

  constructor(report: (rule: TreeRule, what: string) => void) {
    this.#report = report
  }

  /** Takes over what was there before; it is not judged. */
  begin(changes: readonly Change[]): void {
    this.#isJudging = false
    this.apply(changes)
    this.#isJudging = true
  }

  apply(changes: readonly Change[]): void {
    const inFlight = new Map<string, number>()
    const settled = new Set<string>()
    /** Whether composites were closing before this commit, which may change them more than once. */
    const wasClosing = new Map<string, boolean>()
    for (const { table, kind, row } of changes) {
      if (table === 'sluice.composites') {
        const id = row.job_id!
        if (!wasClosing.has(id)) wasClosing.set(id, this.#composites.get(id)?.isClosing ?? false)
        if (kind === 'DELETE') this.#composites.delete(id)
        else this.#composites.set(id, compositeOf(row))
      } else if (table === 'sluice.jobs') {
        const parent = kind === 'DELETE' ? this.#jobs.get(row.id!)?.parent : row.parent_id
        if (parent != null && !inFlight.has(parent)) inFlight.set(parent, this.#family(parent).inFlight)
        this.#change(row.id!, kind === 'DELETE' ? undefined : jobOf(row), row, settled)
      }
    }
    if (!this.#isJudging) return
    for (const [parent, before] of inFlight) this.#judgeWindow(parent, before)
    for (const id of settled) this.#judgeSettled(id, wasClosing.get(id) ?? false)
  }

  #change(id: string, after: TreeJob | undefined, row: Change['row'], settled: Set<string>): void {
    const before = this.#jobs.get(id)
    if (before !== undefined) this.#count(id, before, -1)
    if (after === undefined) {
      this.#jobs.delete(id)
      this.#families.delete(id)
      return
    }
    this.#jobs.set(id, after)
    this.#noteRelease(before, after)
    this.#judgePlace(id, before, after)
    this.#count(id, after, 1)
    if (after.composite === null) return
    if (row.worker_id != null || row.class_id != null)
      this.#tell(
        'composites hold nothing',
        `${after.composite} ${id} has worker ${row.worker_id}, class ${row.class_id}`,
      )
    if (before !== undefined && !ENDED.has(before.state) && ENDED.has(after.state)) settled.add(id)
  }

  #judgePlace(id: string, before: TreeJob | undefined, { parent, place, isSuperseded }: TreeJob): void {
    if (parent === null || before !== undefined) return
    const other = this.#family(parent).places.get(place)
    if (other !== undefined && other !== id && !isSuperseded)
      this.#tell('one child in a place', `jobs ${other} and ${id} are both child ${place} of job ${parent}`)
    const above = this.#jobs.get(parent)
    if (above !== undefined && ENDED.has(above.state))
      this.#tell(
        'nothing begins below an end',
        `job ${id} was made below job ${parent}, which is ${above.state}`,
      )
  }

  /** Each child that comes through a window, also in a commit in which another ends and leaves it the place. */
  #noteRelease(before: TreeJob | undefined, { parent, state }: TreeJob): void {
    if (!this.#isJudging || parent === null || !isInFlight(state)) return
    const wasHeld = before === undefined || before.state === 'waiting'
    if (wasHeld && this.#composites.get(parent)?.window != null) this.seen.released++
  }

  #judgeWindow(parent: string, before: number): void {
    const window = this.#composites.get(parent)?.window ?? null
    const { inFlight } = this.#family(parent)
    if (window === null) return
    this.seen.peak = Math.max(this.seen.peak, inFlight)
    if (inFlight > before && inFlight > window)
      this.#tell(
        'window',
        `${inFlight} children of job ${parent} are in flight, ${before} were; its window is ${window}`,
      )
  }

  #judgeSettled(id: string, wasClosing: boolean): void {
    this.seen.settled++
    const composite = this.#composites.get(id)
    if (composite === undefined) return
    const { open, places, states } = this.#family(id)
    const { state } = this.#jobs.get(id)!
    const isEarly = composite.isClosing && !wasClosing
    if (open > 0 && !isEarly)
      this.#tell(
        'settled with its children',
        `job ${id} became ${state} while ${open} children had not ended`,
      )
    if (composite.isClosing || composite.total === null) return
    const counted = ['completed', 'failed', 'cancelled'].map((each) => states.get(each) ?? 0).join()
    const told = Object.values(composite.ended).join()
    if (places.size !== composite.total || counted !== told)
      this.#tell(
        'counted once',
        `fan-out ${id} of ${composite.total} ended with ${places.size} children: ${counted} by state, ${told} told`,
      )
  }

  #count(id: string, { parent, place, state, isSuperseded }: TreeJob, by: 1 | -1): void {
    if (parent === null || isSuperseded) return
    const family = this.#family(parent)
    if (by === 1) family.places.set(place, id)
    else if (family.places.get(place) === id) family.places.delete(place)
    family.states.set(state, (family.states.get(state) ?? 0) + by)
    if (!ENDED.has(state)) family.open += by
    if (isInFlight(state)) family.inFlight += by
  }

  #family(parent: string): Family {
    let family = this.#families.get(parent)
    if (family === undefined) {
      family = { places: new Map(), states: new Map(), inFlight: 0, open: 0 }
      this.#families.set(parent, family)
    }
    return family
  }

  #tell(rule: TreeRule, what: string): void {
    if (this.#isJudging) this.#report(rule, what)
  }
}

function isInFlight(state: string): boolean {
  return state !== 'waiting' && !ENDED.has(state)
}

function jobOf(row: Change['row']): TreeJob {
  return {
    state: row.state!,
    composite: row.composite ?? null,
    parent: row.parent_id ?? null,
    place: Number(row.idx),
    isSuperseded: row.superseded_at != null,
  }
}

function compositeOf(row: Change['row']): Composite {
  return {
    window: row.window_size == null ? null : Number(row.window_size),
    total: row.total == null ? null : Number(row.total),
    ended: {
      completed: Number(row.completed),
      failed: Number(row.failed),
      cancelled: Number(row.cancelled),
    },
    isClosing: row.closing != null,
  }
}
