import type { Connection, Queryable } from '../db/database.ts'
import { blamesValues, isConnectionLoss, isFenced, sqlState } from '../db/sqlstate.ts'
import { messageOf } from '../errors.ts'
import type { Assignment, CycleAnswer, EndedAttempt } from '../model/assignment.ts'
import type { ClaimedRow } from '../model/claim.ts'
import type { LeafPolicy } from '../model/composite.ts'
import { endWorker } from '../store/end-worker.ts'
import { loadClaimed } from '../store/load-claimed.ts'
import { type DispatchClass, loadClasses } from '../store/load-classes.ts'
import { registerWorker, type WorkerIdentity } from '../store/register-worker.ts'
import { resyncWorker } from '../store/resync-worker.ts'
import { runCycle } from '../store/run-cycle.ts'
import type { Log } from './log.ts'
import { ScanPlaces } from './scan-places.ts'
import { SlotKeeper } from './slot-keeper.ts'

/** Processes that wait for results are told at most this often; they poll too. */
const HINT_MS = 20

const NO_TAGS: readonly string[] = Object.freeze([])
const UNREACHED = { assignments: [], lost: [], reached: false, again: false } as const

/**
 * The database side of one worker: its registration, the slots it holds, the
 * jobs it has been given, and the cycle that reports and takes jobs.
 *
 * Modes: `new` -> `in step` by `open()`. A cycle whose outcome is unknown (the
 * answer was lost), that was fenced, or that ended fewer jobs than were sent
 * leaves it `out of step`; the next cycle then resyncs first: the database says
 * what this worker runs, what it does not know is adopted, what it lost is
 * reported. A worker that was declared dead registers anew, as another one.
 */
export class Dispatcher {
  readonly #db: Queryable
  readonly #connection: Connection
  readonly #identity: WorkerIdentity
  readonly #log: Log
  readonly #places = new ScanPlaces()
  readonly #slots = new SlotKeeper()
  readonly #processTasks: ReadonlySet<string>
  /** Jobs held, with their lane. */
  readonly #held = new Map<string, string>()
  #workerId = ''
  #epoch = 0
  /** When the newest job it knows of was claimed: a cycle that finds a newer one is refused. */
  #known = 0
  #lanes: readonly string[] = []
  #classes: readonly DispatchClass[] = []
  #taskOf = new Map<number, DispatchClass>()
  #outOfStep = true
  #turn = 0
  #hintedAt = 0

  constructor(options: {
    db: Queryable
    connection: Connection
    identity: WorkerIdentity
    /** Tasks that need a pool process. */
    processTasks: ReadonlySet<string>
    log: Log
  }) {
    this.#db = options.db
    this.#connection = options.connection
    this.#identity = options.identity
    this.#processTasks = options.processTasks
    this.#log = options.log
  }

  get workerId(): string {
    return this.#workerId
  }

  /** The shortest poll among the lanes it serves. */
  get pollMs(): number {
    return Math.min(30_000, ...this.#classes.map((each) => each.pollMs))
  }

  /** In how long to look again without a hint: something may lie before the place it looked from. Infinite: nothing may. */
  get lookAgainMs(): number {
    return Math.max(0, this.#places.topDueAt - performance.now())
  }

  /** `stale` of the lanes it serves, by lane. */
  get staleByLane(): ReadonlyMap<string, number> {
    return new Map(this.#classes.map((each) => [each.lane, each.staleMs]))
  }

  get holdsIdle(): boolean {
    return this.#slots.holdsIdle
  }

  async open(): Promise<void> {
    await this.#register()
    await this.refresh()
  }

  /** Reads again what there is to serve. Lanes that are new to this worker take effect with the next cycle. */
  async refresh(): Promise<void> {
    this.#classes = await loadClasses(this.#db, this.#identity.tasks, this.#identity.labels)
    this.#taskOf = new Map(this.#classes.map((each) => [each.id, each]))
    this.#slots.setLimited(this.#classes.filter((each) => each.slots !== null).map((each) => each.lane))
    if (this.#classes.some((each) => !this.#lanes.includes(each.lane))) this.#outOfStep = true
  }

  /** Something happened that this worker was not told: the next cycle asks the database first. */
  markOutOfStep(): void {
    this.#outOfStep = true
  }

  /** Another worker waits for slots: hold none idle. */
  dropIdleSlots(): void {
    this.#slots.dropIdle()
  }

  async cycle(ended: readonly EndedAttempt[], free: number, freeProcesses: number): Promise<CycleAnswer> {
    if (this.#outOfStep) return this.#resync(ended)
    const fits = howManyFit(ended)
    if (fits < ended.length) {
      const answer = await this.cycle(ended.slice(0, fits), 0, 0)
      return { ...answer, unsent: [...answer.unsent, ...ended.slice(fits)] }
    }
    try {
      const rows = await this.#send(ended, free, freeProcesses)
      for (const each of ended) this.#forget(each.id)
      if (rows.length > 0 && rows[0]![0] === null) {
        this.#log.warn(
          { worker: this.#identity.name },
          'some endings were refused: this worker no longer held the jobs',
        )
        return this.#resync([])
      }
      return {
        assignments: rows.map((row) => this.#adopt(row)),
        lost: [],
        unsent: [],
        reached: true,
        again: false,
      }
    } catch (error) {
      return this.#afterFailure(error, ended)
    }
  }

  async close(why: string): Promise<boolean> {
    return endWorker(this.#db, this.#workerId, why)
  }

  async #send(ended: readonly EndedAttempt[], free: number, freeProcesses: number): Promise<ClaimedRow[]> {
    const { done, endings } = encode(ended)
    const now = performance.now()
    const classes = free > 0 ? this.#claimable(freeProcesses) : []
    const served = new Set(classes.map((each) => each.lane))
    const hint = ended.length > 0 && now - this.#hintedAt >= HINT_MS
    if (hint) this.#hintedAt = now
    const places = this.#places.take(classes, now)
    const rows = await runCycle(this.#connection, {
      workerId: this.#workerId,
      epoch: this.#epoch,
      known: this.#known,
      done,
      endings,
      lanes: this.#lanes,
      run: this.#runningAfter(ended),
      want: this.#lanes.map((lane) => (served.has(lane) ? free : 0)),
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
    })
    this.#places.put(classes, rows, free, now, performance.now() - now)
    return rows
  }

  /** What it runs per lane once these endings are recorded. */
  #runningAfter(ended: readonly EndedAttempt[]): number[] {
    const endedIn = new Map<string, number>()
    for (const { id } of ended) {
      const lane = this.#held.get(id)!
      endedIn.set(lane, (endedIn.get(lane) ?? 0) + 1)
    }
    return this.#lanes.map((lane) => this.#slots.running(lane) - (endedIn.get(lane) ?? 0))
  }

  /** The classes to claim from, with how many of each. Pool processes are shared out so that none is promised twice. */
  #claimable(freeProcesses: number): { id: number; lane: string; max: number; slots: number | null }[] {
    const open = this.#classes.filter((each) => this.#lanes.includes(each.lane))
    const pooled = open.filter((each) => this.#processTasks.has(each.task))
    const claimable: { id: number; lane: string; max: number; slots: number | null }[] = []
    for (const each of open) {
      const place = pooled.indexOf(each)
      const max = place < 0 ? 2_147_483_647 : shareOf(freeProcesses, pooled.length, place, this.#turn)
      if (max > 0) claimable.push({ id: each.id, lane: each.lane, max, slots: each.slots })
    }
    return claimable
  }

  #adopt(row: ClaimedRow): Assignment {
    const [id, classId, attempt, failures, , priority, submittedAt, key, tags, input, mark, policy] = row
    this.#known = Math.max(this.#known, Number(mark))
    const known = this.#taskOf.get(classId)!
    this.#held.set(id!, known.lane)
    this.#slots.started(known.lane)
    return {
      id: id!,
      attempt,
      task: known.task,
      lane: known.lane,
      failures,
      priority,
      key,
      tags: tags ?? NO_TAGS,
      submittedAt,
      input,
      ...(policy === null ? {} : { policy: JSON.parse(policy) as LeafPolicy }),
    }
  }

  #forget(id: string): void {
    const lane = this.#held.get(id)
    if (lane !== undefined && this.#held.delete(id)) this.#slots.ended(lane)
  }

  async #afterFailure(error: unknown, ended: readonly EndedAttempt[]): Promise<CycleAnswer> {
    if (blamesValues(error) && ended.length > 0) return this.#sendOneByOne(ended)
    if (isFenced(error) || isConnectionLoss(error)) {
      this.#outOfStep = true
      this.#log.warn(
        { worker: this.#identity.name, error: messageOf(error) },
        'cycle failed, its outcome is unknown: resync',
      )
      return isFenced(error) ? this.#resync(ended) : { ...UNREACHED, unsent: ended }
    }
    // The server answered with an error, so nothing of this cycle happened.
    this.#log.error(
      { worker: this.#identity.name, error: messageOf(error), sqlState: sqlState(error) },
      'cycle failed',
    )
    return { ...UNREACHED, unsent: ended }
  }

  /** One ending of the batch cannot be stored: find it, and fail that job instead of holding up the others. */
  async #sendOneByOne(ended: readonly EndedAttempt[]): Promise<CycleAnswer> {
    const unsent: EndedAttempt[] = []
    for (const each of ended) {
      try {
        await this.#send([each], 0, 0)
        this.#forget(each.id)
      } catch (error) {
        if (!blamesValues(error)) unsent.push(each)
        else {
          const text = `internal: the outcome could not be stored: ${messageOf(error)}`
          unsent.push({ ...each, ending: { kind: 'failed', error: text } })
        }
      }
    }
    return { assignments: [], lost: [], unsent, reached: true, again: true }
  }

  async #resync(ended: readonly EndedAttempt[]): Promise<CycleAnswer> {
    try {
      const state = await resyncWorker(this.#connection, this.#workerId)
      if (state === undefined) return await this.#startOver(ended)
      this.#epoch = state.epoch
      this.#lanes = state.lanes
      this.#known = Math.max(0, ...state.running.map((job) => job.mark))
      const running = new Map(state.running.map((job) => [job.id, job.attempt]))
      const unsent = ended.filter((each) => running.get(each.id) === each.attempt)
      const settled = new Set(ended.filter((each) => !unsent.includes(each)).map((each) => each.id))
      const lost = [...this.#held.keys()].filter((id) => !running.has(id) && !settled.has(id))
      const unknown = [...running.keys()].filter((id) => !this.#held.has(id) || settled.has(id))
      // What can fail comes first: what is forgotten below is told only this once.
      const rows = unknown.length === 0 ? [] : await this.#loadUnknown(unknown)
      for (const id of [...settled, ...lost]) this.#forget(id)
      const assignments = rows.map((row) => this.#adopt(row))
      this.#outOfStep = false
      return { assignments, lost, unsent, reached: true, again: true }
    } catch (error) {
      this.#log.warn({ worker: this.#identity.name, error: messageOf(error) }, 'resync failed')
      return { ...UNREACHED, unsent: ended }
    }
  }

  async #loadUnknown(ids: readonly string[]): Promise<ClaimedRow[]> {
    await this.refresh()
    return loadClaimed(this.#connection, this.#workerId, ids)
  }

  /** Declared dead: others run its jobs now. Everything it has is lost; it goes on as a new worker. */
  async #startOver(ended: readonly EndedAttempt[]): Promise<CycleAnswer> {
    const lost = [...this.#held.keys()]
    this.#log.error(
      { worker: this.#identity.name, workerId: this.#workerId, lost: lost.length, refused: ended.length },
      'this worker was declared dead; its late results are refused and it registers anew',
    )
    await this.#register()
    for (const id of lost) this.#forget(id)
    return { assignments: [], lost, unsent: [], reached: true, again: true }
  }

  async #register(): Promise<void> {
    this.#known = 0
    this.#workerId = await registerWorker(this.#connection, this.#identity)
    const state = await resyncWorker(this.#connection, this.#workerId)
    this.#epoch = state!.epoch
    this.#lanes = state!.lanes
    this.#outOfStep = false
  }
}

/** Splits `total` into `parts`, whole numbers that add up to it; who gets the remainder rotates with `turn`. */
function shareOf(total: number, parts: number, part: number, turn: number): number {
  const extra = (part + turn) % parts < total % parts ? 1 : 0
  return Math.floor(total / parts) + extra
}

/** Characters of results in one cycle; a single one may have more. PostgreSQL refuses 256 MB of JSON in one value. */
const MAX_RESULTS = 32 * 1024 * 1024

/** How many of the first endings may go into one cycle, at least one. */
function howManyFit(ended: readonly EndedAttempt[]): number {
  let characters = 0
  for (let i = 0; i < ended.length; i++) {
    const { ending } = ended[i]!
    if (ending.kind === 'completed') characters += ending.result.length
    if (i > 0 && characters > MAX_RESULTS) return i
  }
  return ended.length
}

function encode(ended: readonly EndedAttempt[]): { done: string | null; endings: string | null } {
  let done = ''
  const others: object[] = []
  for (const { id, attempt, ending } of ended) {
    if (ending.kind === 'completed')
      done += `${done === '' ? '' : ','}"${id}":{"attempt":${attempt},"result":${ending.result}}`
    else {
      others.push({
        id,
        attempt,
        ending: ending.kind,
        error: 'error' in ending ? ending.error : null,
        delayMs: 'delayMs' in ending ? Math.round(ending.delayMs) : null,
      })
    }
  }
  return {
    done: done === '' ? null : `{${done}}`,
    endings: others.length === 0 ? null : JSON.stringify(others),
  }
}
