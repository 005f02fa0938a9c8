import type { RawQueryable } from '../db/database.ts'
import type { CycleRequest, EndedAttempt } from '../model/assignment.ts'
import type { ClaimedRow } from '../model/claim.ts'
import type { CycleArguments } from '../store/run-cycle.ts'
import { BudgetPlanner, type Drawn } from './budget-planner.ts'
import { FillOrder, type Look } from './fill-order.ts'
import { LockedLanes } from './locked-lanes.ts'
import type { Log } from './log.ts'
import type { Claimable, Offer } from './offer.ts'
import { ScanPlaces } from './scan-places.ts'
import type { SlotKeeper } from './slot-keeper.ts'

/** Processes that wait for results get a hint at most this often; they poll too. */
const HINT_MS = 20

/** A job held: its lane and the attempt that the lease is for. */
export interface Held {
  readonly lane: string
  readonly attempt: number
  /** Where it runs, if it draws from budgets. */
  readonly drawn?: Drawn
}

/** What a cycle asks for. */
export interface Ask extends Pick<CycleRequest, 'free' | 'freeProcesses' | 'limits' | 'news'> {
  /** The lanes to look at. Left out: all. */
  readonly lanes?: ReadonlySet<string> | undefined
}

/** What the database knows of the worker that asks. */
export interface Asker {
  readonly workerId: string
  /** In the order every cycle must name them. */
  readonly lanes: readonly string[]
  readonly held: ReadonlyMap<string, Held>
}

type ClaimArguments = Omit<CycleArguments, 'workerId' | 'epoch' | 'known' | 'ended'>

/** One claim that is about to be made: what the cycle sends, and what is needed to learn from its answer. */
interface PreparedClaim {
  readonly arguments: ClaimArguments
  readonly look: Look
  readonly classes: readonly Claimable[]
  readonly wanted: ReadonlySet<string>
  /** How many jobs of each planned class are expected. */
  readonly counts: ReadonlyMap<number, number>
}

const UNPLANNED = { budget: null, counts: new Map<number, number>() }

/** Decides what the next cycle of one worker looks for and where its scans begin, and learns from each answer. */
export class Claiming {
  readonly order = new FillOrder()
  readonly planner: BudgetPlanner
  /** The next cycles take jobs only from lanes that pass. */
  mayServe: (lane: string) => boolean = () => true
  readonly #offer: Offer
  readonly #slots: SlotKeeper
  readonly #hears: () => boolean
  readonly #places = new ScanPlaces()
  readonly #locked: LockedLanes
  #turn = 0
  #hintedAt = 0

  constructor(parts: {
    readonly offer: Offer
    readonly slots: SlotKeeper
    readonly connection: RawQueryable
    readonly log: Log
    /** Whether hints arrive. Where they do not, other workers find jobs by polling. */
    readonly hears: () => boolean
  }) {
    this.#offer = parts.offer
    this.#slots = parts.slots
    this.#hears = parts.hears
    this.planner = new BudgetPlanner(parts.connection)
    this.#locked = new LockedLanes(parts.log)
  }

  /** In how long to look again without a hint: a job may lie before the place it looked from. Infinite: none can. */
  get lookAgainMs(): number {
    const planned = this.#offer.isBudgeted ? this.planner.lookAgainMs : Number.POSITIVE_INFINITY
    return Math.min(this.#mayHaveMissedMs, planned)
  }

  get #mayHaveMissedMs(): number {
    const dueAt = Math.min(this.#places.topDueAt, this.order.lookAt)
    const now = performance.now()
    return Math.min(Math.max(0, dueAt - now), this.#locked.lookAgainMs(now))
  }

  /** Another incarnation: it comes last, and no model is loaded under its name. */
  startOver(): void {
    this.order.startOver()
    this.planner.startOver()
  }

  /** A resync left these lanes out because other sessions have locked them. */
  noteLeftOut(lanes: readonly string[]): void {
    this.#locked.note(lanes, new Set(), performance.now())
  }

  /** Whether a lane that a resync left out is worth another one now. */
  isDue(lane: string): boolean {
    return !this.#locked.isSkipped(lane, performance.now())
  }

  /**
   * Looks at all lanes when `ask.lanes` is left out, and while an earlier look may have missed something. Classes that draw from
   * budgets are always looked at, because they are planned together.
   */
  async prepare(asker: Asker, ended: readonly EndedAttempt[], ask: Ask): Promise<PreparedClaim> {
    const { lanes, held } = asker
    const { free, freeProcesses, limits } = ask
    const only = this.#mayHaveMissedMs === Number.POSITIVE_INFINITY ? ask.lanes : undefined
    const bounds = { freeProcesses, limits, mayServe: this.mayServe, turn: this.#turn }
    const open = (free > 0 ? this.#offer.claimable(lanes, bounds) : []).filter(
      (each) => only === undefined || each.budgeted || only.has(each.lane),
    )
    const { budget, counts } = await this.#plan(asker, open, ended, ask)
    const now = performance.now()
    const classes = open.flatMap((each) => {
      if (!each.budgeted) return [each]
      const max = counts.get(each.id) ?? 0
      return max > 0 ? [{ ...each, max }] : []
    })
    const served = new Set(classes.map((each) => each.lane))
    const hint = ended.length > 0 && now - this.#hintedAt >= HINT_MS
    if (hint) this.#hintedAt = now
    const places = this.#places.take(classes, now)
    this.order.begin(now)
    const run = this.#runningAfter(asker, ended)
    const wanted = new Set(
      lanes.filter((lane, i) => served.has(lane) && (run[i]! > 0 || !this.#locked.isSkipped(lane, now))),
    )
    // Idle slots are for the workers that come first.
    if (this.order.isBehind) this.#slots.dropIdle()
    return {
      look: { at: now, lanes: served },
      classes,
      wanted,
      counts,
      arguments: {
        lanes,
        run,
        want: lanes.map((lane) => (wanted.has(lane) ? free : 0)),
        keep: this.#slots.keep(lanes, now),
        free: served.size > 0 ? free : 0,
        first: (this.#turn++ % Math.max(1, lanes.length)) + 1,
        classes: classes.map((each) => each.id),
        classLane: classes.map((each) => lanes.indexOf(each.lane) + 1),
        classMax: classes.map((each) => each.max),
        afterRank: places.map((place) => place.rank),
        afterId: places.map((place) => place.id),
        merge: served.size < classes.length,
        hint,
        budget,
        ordered: this.order.mustAsk(this.#offer.isSpread, held.size - ended.length),
        fresh: classes.map((each) => this.order.freshMs(each.lane, now)),
        hears: this.#hears(),
      },
    }
  }

  /** Takes the rows that are no jobs off the answer: first that of jobs left to others, then that of locked lanes. */
  learn({ look, classes, wanted, counts }: PreparedClaim, rows: ClaimedRow[], free: number): void {
    const left = rows.at(-1)?.[8] === null ? takeExtra(rows) : undefined
    const locked = takeExtra(rows)?.[8] ?? []
    if (left === undefined) this.order.leftNothing(rows.length, look)
    else this.order.left(left[1], left[2] as number | null, look, performance.now())
    this.#locked.note(locked, wanted, performance.now())
    this.#places.put(classes, rows, free, look.at, performance.now() - look.at)
    if (counts.size > 0) this.#compare(counts, rows)
  }

  /** Plans the classes that draw from budgets. A worker without such classes does nothing here. */
  async #plan(
    { workerId, held }: Asker,
    open: readonly Claimable[],
    ended: readonly EndedAttempt[],
    { free, news }: Ask,
  ): Promise<{ readonly budget: string | null; readonly counts: ReadonlyMap<number, number> }> {
    const { isBudgeted, models } = this.#offer
    // Jobs that drew from budgets may have left models behind.
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

  /** What the worker runs per lane once these endings are recorded. */
  #runningAfter({ lanes, held }: Asker, ended: readonly EndedAttempt[]): number[] {
    const endedIn = new Map<string, number>()
    for (const { id } of ended) {
      const lane = held.get(id)?.lane
      if (lane !== undefined) endedIn.set(lane, (endedIn.get(lane) ?? 0) + 1)
    }
    return lanes.map((lane) => this.#slots.running(lane) - (endedIn.get(lane) ?? 0))
  }
}

/** Takes off the last row if it is no job but a report: it has no id, and a number in the next column. */
function takeExtra(rows: ClaimedRow[]): ClaimedRow | undefined {
  const last = rows.at(-1)
  return last !== undefined && last[0] === null && (last[1] as number | null) !== null
    ? rows.pop()
    : undefined
}
