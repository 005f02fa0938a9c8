import type { Queryable, RawQueryable } from '../db/database.ts'
import type { Assignment, EndedAttempt } from '../model/assignment.ts'
import type { ClaimedRow } from '../model/claim.ts'
import type { LeafPolicy } from '../model/composite.ts'
import type { ModelNews, ModelOnDevice } from '../model/device.ts'
import { loadClaimed } from '../store/load-claimed.ts'
import { type DispatchClass, loadClasses } from '../store/load-classes.ts'
import { type NamedAttempt, type Resynced, resyncWorker } from '../store/resync-worker.ts'
import { runCycle } from '../store/run-cycle.ts'
import { BudgetPlanner, type Drawn } from './budget-planner.ts'
import { encodeEndings } from './encode-endings.ts'
import { FillOrder, type Look } from './fill-order.ts'
import { LockedLanes } from './locked-lanes.ts'
import type { Log } from './log.ts'
import { ScanPlaces } from './scan-places.ts'
import { SlotKeeper } from './slot-keeper.ts'

/** Processes that wait for results are told at most this often; they poll too. */
const HINT_MS = 20

/** The others only end an attempt. */
const ENDS_JOB: ReadonlySet<string> = new Set(['completed', 'failed', 'cancelled'])

const NO_TAGS: readonly string[] = Object.freeze([])

export interface SessionOptions {
  readonly db: Queryable
  readonly connection: RawQueryable
  readonly tasks: readonly string[]
  readonly labels: Readonly<Record<string, unknown>>
  /** Tasks that need a pool process. */
  readonly processTasks: ReadonlySet<string>
  readonly log: Log
  /** Whether hints arrive: where they do not, other workers find jobs by polling. */
  readonly hears: () => boolean
  /** A resync together with those of other workers. `undefined`: it has to be asked for alone. */
  readonly resync?: ((workerId: string) => Promise<Resynced | undefined>) | undefined
}

/** A class to claim from, with how many at most. */
interface Claimable {
  readonly id: number
  readonly lane: string
  readonly max: number
  readonly slots: number | null
  readonly budgeted: boolean
}

const UNPLANNED = { budget: null, counts: new Map<number, number>() }

/** A job held: its lane and the attempt that the lease is for. */
export interface Held {
  readonly lane: string
  readonly attempt: number
  /** Where it runs, if it draws from budgets. */
  readonly drawn?: Drawn
}

/**
 * What one incarnation of a worker is to the database: its epoch, its lanes, the jobs it holds, and where its scans
 * begin. Every cycle is one `send()`; a `resync()` makes the picture right again.
 */
export class CycleSession {
  readonly #options: SessionOptions
  readonly #places = new ScanPlaces()
  readonly #slots = new SlotKeeper()
  readonly #order = new FillOrder()
  readonly #held = new Map<string, Held>()
  readonly #planner: BudgetPlanner
  readonly #locked: LockedLanes
  #workerId = ''
  #epoch = 0
  /** When the newest job it knows of was claimed: a cycle that finds a newer one is refused. */
  #known = 0
  #lanes: readonly string[] = []
  #classes: readonly DispatchClass[] = []
  #taskOf = new Map<number, DispatchClass>()
  /** Some class draws from budgets. */
  #budgeted = false
  /** Some lane is spread. */
  #spreads = false
  #limits: ReadonlyMap<string, number> | undefined
  #mayServe: (lane: string) => boolean = () => true
  #turn = 0
  /** When it last held a job, or began. */
  #busyAt = performance.now()
  #hintedAt = 0
  #done = 0

  constructor(options: SessionOptions) {
    this.#options = options
    this.#planner = new BudgetPlanner(options.connection)
    this.#locked = new LockedLanes(options.log)
  }

  get workerId(): string {
    return this.#workerId
  }

  /** Jobs held, as the cycles of this session and the last resync have it. */
  get held(): ReadonlyMap<string, Held> {
    return this.#held
  }

  /** For how long it has held no job. */
  get idleMs(): number {
    return this.#held.size > 0 ? 0 : performance.now() - this.#busyAt
  }

  /** How long the poll is of each lane that it serves. */
  get polls(): ReadonlyMap<string, number> {
    return new Map(this.#classes.map((each) => [each.lane, each.pollMs]))
  }

  /** In how long to look again without a hint: something may lie before the place it looked from. Infinite: nothing may. */
  get lookAgainMs(): number {
    const planned = this.#budgeted ? this.#planner.lookAgainMs : Number.POSITIVE_INFINITY
    return Math.min(this.#mayHaveMissedMs, planned)
  }

  get #mayHaveMissedMs(): number {
    const dueAt = Math.min(this.#places.topDueAt, this.#order.lookAt)
    const now = performance.now()
    return Math.min(Math.max(0, dueAt - now), this.#locked.lookAgainMs(now))
  }

  /** Where it stands among workers. */
  get order(): FillOrder {
    return this.#order
  }

  /** Models that this worker has to unload, as of the last cycle. */
  get unload(): readonly ModelOnDevice[] {
    return this.#planner.unload
  }

  /** `stale` of the lanes it serves, by lane. */
  get staleByLane(): ReadonlyMap<string, number> {
    return new Map(this.#classes.map((each) => [each.lane, each.staleMs]))
  }

  /** How many jobs it has ended since the last time this was asked. */
  takeDone(): number {
    const done = this.#done
    this.#done = 0
    return done
  }

  /** They could not be noted. */
  giveBackDone(jobs: number): void {
    this.#done += jobs
  }

  get holdsIdle(): boolean {
    return this.#slots.holdsIdle
  }

  /** Another worker waits for slots: hold none idle. */
  dropIdleSlots(): void {
    this.#slots.dropIdle()
  }

  /** Of these tasks the next cycles take at most so many. */
  limitTasks(limits: ReadonlyMap<string, number> | undefined): void {
    this.#limits = limits
  }

  /** The next cycles take jobs only from lanes that pass. */
  limitLanes(mayServe: (lane: string) => boolean): void {
    this.#mayServe = mayServe
  }

  /** Goes on as this incarnation. Needs a resync before the first cycle. */
  follow(workerId: string): void {
    this.#workerId = workerId
    this.#known = 0
    this.#done = 0
    this.#busyAt = performance.now()
    this.#order.startOver()
    this.#planner.startOver()
  }

  /** Reads again what there is to serve. True when a lane is new to this worker: it takes a resync to serve it. */
  async refresh(): Promise<boolean> {
    const { db, tasks, labels } = this.#options
    this.#classes = await loadClasses(db, tasks, labels)
    this.#taskOf = new Map(this.#classes.map((each) => [each.id, each]))
    this.#budgeted = this.#classes.some((each) => each.budgeted)
    this.#spreads = this.#classes.some((each) => each.spread)
    this.#slots.setLimited(this.#classes.filter((each) => each.slots !== null).map((each) => each.lane))
    return this.#missingLanes().length > 0
  }

  /** A resync left out lanes that others had locked, and it is time for another. */
  get lacksLanes(): boolean {
    const now = performance.now()
    return this.#missingLanes().some((lane) => !this.#locked.isSkipped(lane, now))
  }

  #missingLanes(): string[] {
    const missing = this.#classes.filter((each) => !this.#lanes.includes(each.lane))
    return [...new Set(missing.map((each) => each.lane))]
  }

  /**
   * Raises the epoch and asks what this worker runs, by id with the attempt. The jobs held are left as they are: who
   * asked compares, and then adopts and forgets.
   *
   * @param named All that the worker runs or has not reported yet, in its own words.
   * @returns `undefined` when the worker has been declared dead.
   */
  async resync(named: readonly NamedAttempt[] | null): Promise<ReadonlyMap<string, number> | undefined> {
    const { connection, resync } = this.#options
    const state = (await resync?.(this.#workerId)) ?? (await resyncWorker(connection, this.#workerId, named))
    if (state === undefined) return undefined
    this.#epoch = state.epoch
    this.#lanes = state.lanes
    this.#locked.note(this.#missingLanes(), new Set(), performance.now())
    this.#known = Math.max(0, ...state.running.map((job) => job.mark))
    return new Map(state.running.map((job) => [job.id, job.attempt]))
  }

  /** Jobs that run under this worker, as a claim gives them. */
  async load(ids: readonly string[]): Promise<ClaimedRow[]> {
    if (ids.length === 0) return []
    await this.refresh()
    return loadClaimed(this.#options.connection, this.#workerId, ids)
  }

  /**
   * One cycle. All of `ended` must be held. When it resolves, the news is stored.
   *
   * @param lanes Those to look at; all of them when left out, and while an earlier look may have missed something. Classes that
   *   draw from budgets are always looked at, because they are planned together.
   */
  async send(
    ended: readonly EndedAttempt[],
    free: number,
    freeProcesses: number,
    news?: ModelNews,
    lanes?: ReadonlySet<string>,
  ): Promise<ClaimedRow[]> {
    const { done, endings } = encodeEndings(ended)
    const only = this.#mayHaveMissedMs === Number.POSITIVE_INFINITY ? lanes : undefined
    const open = (free > 0 ? this.#claimable(freeProcesses) : []).filter(
      (each) => only === undefined || each.budgeted || only.has(each.lane),
    )
    const { budget, counts } = await this.#plan(open, ended, free, news)
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
    this.#order.begin(now)
    const run = this.#runningAfter(ended)
    const wanted = new Set(
      this.#lanes.filter(
        (lane, i) => served.has(lane) && (run[i]! > 0 || !this.#locked.isSkipped(lane, now)),
      ),
    )
    // Slots that nobody runs in are for those who come first.
    if (this.#order.isBehind) this.#slots.dropIdle()
    const rows = await runCycle(this.#options.connection, {
      workerId: this.#workerId,
      epoch: this.#epoch,
      known: this.#known,
      done,
      endings,
      lanes: this.#lanes,
      run,
      want: this.#lanes.map((lane) => (wanted.has(lane) ? free : 0)),
      keep: this.#slots.keep(this.#lanes, now),
      free: served.size > 0 ? free : 0,
      first: (this.#turn++ % Math.max(1, this.#lanes.length)) + 1,
      classes: classes.map((each) => each.id),
      classLane: classes.map((each) => this.#lanes.indexOf(each.lane) + 1),
      classMax: classes.map((each) => each.max),
      afterRank: places.map((place) => place.rank),
      afterId: places.map((place) => place.id),
      merge: served.size < classes.length,
      hint,
      budget,
      ordered: this.#order.mustAsk(this.#spreads, this.#held.size - ended.length),
      fresh: classes.map((each) => this.#order.freshMs(each.lane, now)),
      hears: this.#options.hears(),
    })
    this.#noteExtras(rows, { at: now, lanes: served }, wanted)
    if (!isOutOfStep(rows)) this.#done += ended.filter(({ ending }) => ENDS_JOB.has(ending.kind)).length
    this.#places.put(classes, rows, free, now, performance.now() - now)
    if (counts.size > 0) this.#compare(counts, rows)
    return rows
  }

  /** Takes off the rows that are no jobs: of jobs left to others, and before it of lanes that others have locked. */
  #noteExtras(rows: ClaimedRow[], look: Look, wanted: ReadonlySet<string>): void {
    const left = rows.at(-1)?.[8] === null ? takeExtra(rows) : undefined
    const locked = takeExtra(rows)?.[8] ?? NO_TAGS
    if (left === undefined) this.#order.leftNothing(rows.length, look)
    else this.#order.left(left[1], left[2] as number | null, look, performance.now())
    this.#locked.note(locked, wanted, performance.now())
  }

  /** What of it draws from budgets is planned first; a worker without such classes does nothing here. */
  async #plan(
    open: readonly Claimable[],
    ended: readonly EndedAttempt[],
    free: number,
    news: ModelNews | undefined,
  ): Promise<{ readonly budget: string | null; readonly counts: ReadonlyMap<number, number> }> {
    // What drew from budgets may have left models behind.
    if (!this.#budgeted && !this.#planner.holdsCopies && news === undefined) return UNPLANNED
    const drawn = new Map<string, Drawn>()
    for (const [id, held] of this.#held) if (held.drawn !== undefined) drawn.set(id, held.drawn)
    const classes = open.filter((each) => each.budgeted)
    const models = new Set(this.#classes.filter((each) => each.budgeted).map(({ model }) => model))
    return this.#planner.prepare({ workerId: this.#workerId, classes, models, free, ended, news, drawn })
  }

  #compare(counts: ReadonlyMap<number, number>, rows: readonly ClaimedRow[]): void {
    let planned = 0
    for (const count of counts.values()) planned += count
    if (rows.filter((row) => counts.has(row[1])).length < planned) this.#planner.missed()
  }

  adopt(row: ClaimedRow): Assignment {
    const [
      id,
      classId,
      attempt,
      failures,
      ,
      priority,
      submittedAt,
      key,
      tags,
      input,
      mark,
      policy,
      trace,
      place,
    ] = row
    this.#known = Math.max(this.#known, Number(mark))
    const { task, lane, model } = this.#taskOf.get(classId)!
    const devices = place === null ? undefined : (JSON.parse(place) as string[])
    this.forget(id!)
    this.#held.set(id!, { lane, attempt, ...(devices !== undefined && { drawn: { model, devices } }) })
    this.#slots.started(lane)
    return {
      id: id!,
      attempt,
      task,
      lane,
      failures,
      priority,
      key,
      tags: tags ?? NO_TAGS,
      submittedAt,
      input,
      ...(policy === null ? {} : { policy: JSON.parse(policy) as LeafPolicy }),
      ...(trace === null ? {} : { trace }),
      ...(devices !== undefined && { devices }),
      ...(model !== null && { model }),
    }
  }

  forget(id: string): void {
    const held = this.#held.get(id)
    if (held !== undefined && this.#held.delete(id)) {
      this.#slots.ended(held.lane)
      this.#busyAt = performance.now()
    }
  }

  /** What it runs per lane once these endings are recorded. */
  #runningAfter(ended: readonly EndedAttempt[]): number[] {
    const endedIn = new Map<string, number>()
    for (const { id } of ended) {
      // One that was given up when its lease ended may still be recorded: the database refuses it, and it counts nowhere.
      const lane = this.#held.get(id)?.lane
      if (lane !== undefined) endedIn.set(lane, (endedIn.get(lane) ?? 0) + 1)
    }
    return this.#lanes.map((lane) => this.#slots.running(lane) - (endedIn.get(lane) ?? 0))
  }

  /** The classes to claim from, with how many of each. Pool processes are shared out so that none is promised twice. */
  #claimable(freeProcesses: number): Claimable[] {
    const open = this.#classes.filter(({ lane }) => this.#lanes.includes(lane) && this.#mayServe(lane))
    const pooled = open.filter((each) => this.#options.processTasks.has(each.task))
    const claimable: Claimable[] = []
    for (const each of open) {
      const place = pooled.indexOf(each)
      const share = place < 0 ? 2_147_483_647 : shareOf(freeProcesses, pooled.length, place, this.#turn)
      const max = Math.min(share, this.#limits?.get(each.task) ?? share)
      // Order within a class that is planned is exact: it is looked at from the top, as a lane with one slot is.
      const { id, lane, budgeted } = each
      if (max > 0) claimable.push({ id, lane, max, slots: budgeted ? 1 : each.slots, budgeted })
    }
    return claimable
  }
}

/** Takes off the last row if it is no job but has something to report: it has no id, and a number in the next column. */
function takeExtra(rows: ClaimedRow[]): ClaimedRow | undefined {
  const last = rows.at(-1)
  return last !== undefined && last[0] === null && (last[1] as number | null) !== null
    ? rows.pop()
    : undefined
}

/** The answer of a cycle that ended fewer jobs than were sent: its worker must resync. */
export function isOutOfStep(rows: readonly ClaimedRow[]): boolean {
  return rows.length > 0 && rows[0]![0] === null
}

/** Splits `total` into `parts`, whole numbers that add up to it; who gets the remainder rotates with `turn`. */
function shareOf(total: number, parts: number, part: number, turn: number): number {
  const extra = (part + turn) % parts < total % parts ? 1 : 0
  return Math.floor(total / parts) + extra
}
