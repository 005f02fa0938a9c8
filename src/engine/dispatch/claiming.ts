import type { RawQueryable } from '../../db/database.ts'
import type { CycleRequest, EndedAttempt, JobAttempt } from '../../model/assignment.ts'
import type { ClaimedRow } from '../../model/claim.ts'
import { HINT_INTERVAL_MS } from '../../model/limits.ts'
import type { CycleArguments, CycleRows } from '../../store/run-cycle.ts'
import type { Log } from '../log.ts'
import { BudgetPlanner, type Drawn } from './budget-planner.ts'
import type { Claimable, Offer } from './claimable-classes.ts'
import { FillOrder, type Look } from './fill-order.ts'
import type { IdleSlots } from './idle-slots.ts'
import { LockedLanes } from './locked-lanes.ts'
import { ahead, divideAhead } from './prefetch-bound.ts'
import { ScanCursors } from './scan-cursors.ts'

/** The database stores it as an integer. */
const MAX_TURN = 1_000_000_000

/** A held job: its lane, the attempt of the lease, and the claim that is the lease. */
export interface Held {
  readonly lane: string
  readonly attempt: number
  readonly seq: number
  /** It has not started, as far as the database knows. */
  readonly assigned: boolean
  /** Its devices, if it uses budgets. */
  readonly drawn?: Drawn
}

/** What a cycle requests. */
export interface ClaimRequest
  extends Pick<CycleRequest, 'free' | 'freeProcesses' | 'limits' | 'news' | 'prefetch'> {
  /** The lanes to look at. Absent: all. */
  readonly lanes?: ReadonlySet<string> | undefined
  /** More outcomes follow that free slots of started jobs. Those starts are reported with the last outcomes. */
  readonly isPart?: boolean
}

/** What the database knows about the worker. */
export interface ClaimingWorker {
  readonly workerId: string
  /** In the order every cycle must name them. */
  readonly lanes: readonly string[]
  readonly held: ReadonlyMap<string, Held>
}

type ClaimArguments = Omit<CycleArguments, 'workerId' | 'epoch' | 'known' | 'ended' | 'begun'>

/** A claim to be made: what the cycle sends, and what is needed to learn from the response. */
interface PreparedClaim {
  readonly arguments: ClaimArguments
  readonly look: Look
  readonly classes: readonly Claimable[]
  readonly wanted: ReadonlySet<string>
  /** How many jobs of each planned class are expected. */
  readonly counts: ReadonlyMap<number, number>
}

/**
 * A worker with several lanes looks at all of them at least this often, because a request for slots may have become
 * unnecessary.
 */
const WHOLE_EVERY_MS = 1000
/** After a failed steady cycle, none is tried for this long, because it costs a round trip. */
const UNSTEADY_MS = 50
/**
 * How often a worker with many classes looks at those without assigned jobs while prefetched jobs keep its slots busy.
 */
const SEE_ALL_EVERY_MS = 5
/** A worker with at most this many classes always looks at all of them. */
const FEW_CLASSES = 16

/** The most ready classes per cycle: `sluice.ready_classes_v1`. */
const CLASSES_AT_ONCE = 64

const UNPLANNED = { budget: null, counts: new Map<number, number>() }

/**
 * Decides which jobs the next cycle of a worker looks for and where its scans begin, and learns from each response.
 */
export class Claiming {
  readonly order = new FillOrder()
  readonly planner: BudgetPlanner
  /** The next cycles take jobs only from lanes that pass. */
  mayServe: (lane: string) => boolean = () => true
  readonly #offer: Offer
  readonly #slots: IdleSlots
  readonly #hears: () => boolean
  readonly #cursors = new ScanCursors()
  readonly #locked: LockedLanes
  #turn = 0
  #hintedAt = 0
  /** The class of all jobs of the last response. */
  #onlyClass: number | undefined
  /** When a steady cycle may be tried again. */
  #steadyAt = 0
  #sawAllAt = 0
  /** When a cycle last looked at all lanes and released their idle slots. */
  #wholeAt = Number.NEGATIVE_INFINITY
  /** The lanes in which it left no slot. Only another such cycle takes slots in them. */
  #unused: ReadonlySet<string> = new Set()
  /** How many consecutive cycles, since a job last ended, skipped classes with ready jobs. */
  #partial = 0
  #hasMore = false

  constructor(parts: {
    readonly offer: Offer
    readonly slots: IdleSlots
    readonly connection: RawQueryable
    readonly log: Log
    /** Whether hints arrive. If not, other workers find jobs by polling. */
    readonly hears: () => boolean
  }) {
    this.#offer = parts.offer
    this.#slots = parts.slots
    this.#hears = parts.hears
    this.planner = new BudgetPlanner(parts.connection)
    this.#locked = new LockedLanes(parts.log)
  }

  /** How soon to look again without a hint, because a job may lie before the cursor. Infinite if none can. */
  get lookAgainMs(): number {
    const planned = this.#offer.isBudgeted ? this.planner.lookAgainMs : Number.POSITIVE_INFINITY
    return Math.min(this.#mayHaveMissedMs, planned)
  }

  /**
   * Whether to look again at once because the last cycle skipped classes with ready jobs. Cycles follow each other
   * until all classes have been looked at since a job last ended. Classes that are still ready are in lanes that are
   * full or paused, so another round would not help.
   */
  get hasMore(): boolean {
    return this.#hasMore
  }

  get #mayHaveMissedMs(): number {
    const dueAt = Math.min(this.#cursors.topDueAt, this.order.lookAt)
    const now = performance.now()
    return Math.min(Math.max(0, dueAt - now), this.#locked.lookAgainMs(now))
  }

  /** The worker has a new incarnation: it comes last in order, and no model is loaded under its name. */
  startOver(): void {
    this.order.startOver()
    this.planner.startOver()
  }

  /**
   * Called after a resync that skipped these lanes because other sessions have locked them. Lost claims may have taken
   * slots in them.
   */
  noteResync(lanes: readonly string[]): void {
    this.#unused = new Set()
    this.#locked.note(lanes, new Set(), performance.now())
  }

  /** Whether to try a lane again that a resync skipped. */
  isDue(lane: string): boolean {
    return !this.#locked.isSkipped(lane, performance.now())
  }

  /**
   * Looks at all lanes when `ask.lanes` is absent, and while an earlier look may have missed something. Classes that
   * use budgets are always looked at, because they are planned together.
   */
  async prepare(
    asker: ClaimingWorker,
    ended: readonly EndedAttempt[],
    begun: readonly JobAttempt[],
    ask: ClaimRequest,
  ): Promise<PreparedClaim> {
    const { lanes, held } = asker
    const { free, freeProcesses, limits, prefetch } = ask
    const only = this.#mayHaveMissedMs === Number.POSITIVE_INFINITY ? ask.lanes : undefined
    const bounds = { freeProcesses, limits, mayServe: this.mayServe, turn: this.#turn }
    const claimable = free > 0 || prefetch !== undefined ? this.#offer.claimable(lanes, bounds) : []
    const asks = (each: Claimable) => ahead(prefetch, each, each.prefetch) > 0
    const isDue = () => claimable.length <= FEW_CLASSES || this.#mustSeeAll()
    const seesAll = free > 0 || (claimable.some(asks) && isDue())
    const open = claimable.filter(
      (each) => (seesAll || asks(each)) && (only === undefined || each.budgeted || only.has(each.lane)),
    )
    const { budget, counts } = await this.#plan(asker, free > 0 ? open : [], ended, ask)
    const now = performance.now()
    const classes = open.flatMap((each) => {
      // Without free slots, nothing can be planned, and the database only reports whether it has jobs.
      if (!each.budgeted || free <= 0) return [each]
      const max = counts.get(each.id) ?? 0
      return max > 0 ? [{ ...each, max }] : []
    })
    const served = new Set(classes.map((each) => each.lane))
    const hint = ended.length > 0 && now - this.#hintedAt >= HINT_INTERVAL_MS
    if (hint) this.#hintedAt = now
    if (ended.length > 0) this.#partial = 0
    this.#turn = (this.#turn + 1) % MAX_TURN
    const steadyClass = this.#steadyClass(lanes, now)
    const cursors = this.#cursors.take(classes, now)
    const position = new Map(lanes.map((lane, i) => [lane, i]))
    this.order.begin(now)
    const endedBy = countBy(asker, ended, () => true)
    const leave = countBy(asker, ended, ({ assigned }) => !assigned)
    const begin = countBy(asker, begun, () => true)
    const run = lanes.map((lane, i) =>
      Math.max(this.#slots.running(lane) + begin[i]! - leave[i]!, prefetch?.slots(lane) ?? 0),
    )
    const wanted = new Set(
      lanes.filter((lane, i) => served.has(lane) && (run[i]! > 0 || !this.#locked.isSkipped(lane, now))),
    )
    // Idle slots belong to the workers that come first.
    if (this.order.isBehind) this.#slots.dropIdle()
    return {
      look: { at: now, lanes: served },
      classes,
      wanted,
      counts,
      arguments: {
        lanes,
        endedBy,
        run,
        want: lanes.map((lane) => (wanted.has(lane) ? free : 0)),
        keep: this.#slots.keep(lanes, now),
        free: served.size > 0 ? free : 0,
        turn: this.#turn,
        classes: classes.map((each) => each.id),
        classLane: classes.map((each) => position.get(each.lane)! + 1),
        classMax: classes.map((each) => each.max),
        classAhead: divideAhead(classes, prefetch, steadyClass, this.#turn),
        afterRank: cursors.map((cursor) => cursor.rank),
        afterId: cursors.map((cursor) => cursor.id),
        hint,
        budget,
        steadyClass,
        ordered: this.order.mustAsk(this.#offer.isSpread, held.size - ended.length),
        fresh: classes.map((each) => this.order.freshMs(each.lane, now)),
        hears: this.#hears(),
      },
    }
  }

  /**
   * Prefetched jobs may keep all slots busy. So a worker without free slots looks at all its classes; with many
   * classes, only from time to time. Nothing more is assigned in lanes where a class has jobs that only a free slot
   * can start, nor in lanes that use more of its capacity than others with ready jobs.
   */
  #mustSeeAll(): boolean {
    const now = performance.now()
    if (now - this.#sawAllAt < SEE_ALL_EVERY_MS) return false
    this.#sawAllAt = now
    return true
  }

  /**
   * The only class that the next cycle is likely to concern. A cycle for one class releases no slots in other lanes,
   * so these must have none. All lanes are looked at from time to time anyway.
   */
  #steadyClass(lanes: readonly string[], now: number): number | undefined {
    const only = this.#onlyClass
    if (only === undefined || now < this.#steadyAt) return undefined
    if (lanes.length === 1) return only
    const own = this.#offer.laneOf(only)
    const hasOthers = lanes.some((lane) => lane !== own && !this.#unused.has(lane))
    return hasOthers || now - this.#wholeAt >= WHOLE_EVERY_MS ? undefined : only
  }

  learn(
    { look, classes, wanted, counts, arguments: asked }: PreparedClaim,
    { jobs, report, steady, wasTried }: CycleRows,
    free: number,
  ): void {
    if (!steady) this.#noteWhole(look.at, asked, jobs)
    if (wasTried && !steady) this.#steadyAt = look.at + UNSTEADY_MS
    if (jobs.length > 0)
      this.#onlyClass = jobs.every((row) => row[1] === jobs[0]![1]) ? jobs[0]![1] : undefined
    if (report.ahead === undefined) this.order.leftNothing(jobs.length, look)
    else this.order.left(report.ahead, report.waitMs ?? null, look, performance.now())
    this.#locked.note(report.locked ?? [], wanted, performance.now())
    this.#cursors.put(classes, jobs, free, look.at, report.scanMs)
    if (counts.size > 0) this.#compare(counts, jobs)
    this.#partial = report.more === true ? this.#partial + 1 : 0
    // A steady cycle reports this when it skipped all classes because it had waited for a lock.
    this.#hasMore = this.#partial > 0 && (steady || this.#partial * CLASSES_AT_ONCE < classes.length)
    if (!this.#hasMore) this.#partial = 0
  }

  #noteWhole(at: number, { lanes, run, keep }: ClaimArguments, jobs: readonly ClaimedRow[]): void {
    const used = new Set(jobs.map((row) => this.#offer.laneOf(row[1])))
    this.#wholeAt = at
    this.#unused = new Set(lanes.filter((lane, i) => run[i] === 0 && keep[i] === 0 && !used.has(lane)))
  }

  /** Plans the classes that use budgets. Does nothing for a worker without such classes. */
  async #plan(
    { workerId, held }: ClaimingWorker,
    open: readonly Claimable[],
    ended: readonly EndedAttempt[],
    { free, news }: ClaimRequest,
  ): Promise<{ readonly budget: string | null; readonly counts: ReadonlyMap<number, number> }> {
    const { isBudgeted, models } = this.#offer
    // Jobs that used budgets may have left models loaded.
    if (!isBudgeted && !this.planner.holdsCopies && news === undefined) return UNPLANNED
    const drawn = new Map<string, Drawn>()
    for (const [id, each] of held) if (each.drawn !== undefined) drawn.set(id, each.drawn)
    const classes = open.filter((each) => each.budgeted)
    return this.planner.prepare({ workerId, classes, models, free, ended, news, drawn })
  }

  #compare(counts: ReadonlyMap<number, number>, rows: readonly ClaimedRow[]): void {
    let planned = 0
    for (const count of counts.values()) planned += count
    if (rows.filter((row) => counts.has(row[1])).length < planned) this.planner.missed()
  }
}

/** Counts jobs by lane. */
function countBy(
  { lanes, held }: ClaimingWorker,
  jobs: readonly JobAttempt[],
  counts: (held: Held) => boolean,
): number[] {
  const byLane = new Map<string, number>()
  for (const { id } of jobs) {
    const each = held.get(id)
    if (each !== undefined && counts(each)) byLane.set(each.lane, (byLane.get(each.lane) ?? 0) + 1)
  }
  return lanes.map((lane) => byLane.get(lane) ?? 0)
}
