import { randomUUID } from 'node:crypto'
import type { Queryable } from '../../db/database.ts'
import type { Listener } from '../../db/listener.ts'
import { blamesValues, sqlState } from '../../db/sqlstate.ts'
import { messageOf, SluiceError } from '../../errors.ts'
import type { TakenComposite } from '../../model/composite.ts'
import type { JsonValue } from '../../model/json.ts'
import type { Taking } from '../../model/taken-composite.ts'
import { applyAdvances } from '../../store/apply-advances.ts'
import { countLeaves } from '../../store/count-leaves.ts'
import { loadOutcomes } from '../../store/load-outcomes.ts'
import { takeComposites } from '../../store/take-composites.ts'
import { childrenOf, type Decision, decide, type Outcome } from '../../workflow/advance/decide.ts'
import { reads } from '../../workflow/advance/reads.ts'
import type { Endings } from '../../workflow/advance/strategy.ts'
import { bodyAt, type Graph, stepAt, strategyAt } from '../../workflow/graph.ts'
import type { Log } from '../log.ts'
import { nextPace, USUAL_PACE } from './advance-pace.ts'
import { GraphCache } from './graph-cache.ts'

/** Looks after a hint: its sender may have spared its neighbour one, whose wake-up comes a moment later. */
const SOON_MS = 4
/** The last look after a hint. A fan-out that passes its places on is due 25 ms after the first of them. */
const LATER_MS = 30
const LOOK_AFTER_FAILURE_MS = 1000
/** Without hints it looks this often. */
const POLL_MS = 250
/** What has been decided is carried out after this long, before more is decided. */
const LONGEST_THOUGHT_MS = 100
/** What is due later than this is told again before it is. */
const LONGEST_WAIT_MS = 60_000
const TRIES = 3

/**
 * Moves workflows on: takes the composites that were woken, decides what comes
 * next, and has the database carry it out.
 *
 * Any number of processes may have one. Modes: `new` -> `running` by `start()`
 * -> `stopped` by `stop()`, for good.
 */
export class Advancer {
  readonly #db: Queryable
  readonly #log: Log
  readonly #listener: Listener
  readonly #onChildren: () => void
  readonly #graphs: GraphCache
  #mode: 'new' | 'running' | 'stopped' = 'new'
  #unsubscribe: (() => void) | undefined
  #soon: NodeJS.Timeout | undefined
  #later: NodeJS.Timeout | undefined
  #nudgedAt = 0
  #pace = USUAL_PACE
  readonly #taker = randomUUID()
  #due: NodeJS.Timeout | undefined
  #dueAt = 0
  #looking: Promise<void> | undefined
  #again = false

  /** @param onChildren Called after children were made: a worker in this process need not wait for the hint. */
  constructor(db: Queryable, listener: Listener, log: Log, onChildren: () => void) {
    this.#db = db
    this.#graphs = new GraphCache(db)
    this.#listener = listener
    this.#log = log
    this.#onChildren = onChildren
  }

  start(): void {
    if (this.#mode !== 'new') return
    this.#mode = 'running'
    this.#unsubscribe = this.#listener.subscribe((topic) => topic === 'wake' && this.nudge())
    this.#listener.start()
    this.nudge()
  }

  async stop(): Promise<void> {
    this.#mode = 'stopped'
    this.#unsubscribe?.()
    for (const timer of [this.#soon, this.#later, this.#due]) clearTimeout(timer)
    await this.#looking
  }

  /** Somebody has woken a composite. Looks now, a little later, and once more when no other nudge has come for a while. */
  nudge(): void {
    if (this.#mode !== 'running') return
    this.#nudgedAt = performance.now()
    this.#look()
    this.#soon ??= setTimeout(() => {
      this.#soon = undefined
      this.#look()
    }, SOON_MS)
    this.#later ??= setTimeout(() => this.#lookLater(), LATER_MS)
  }

  /** Something happened in this process that may have woken a composite; a hint tells, where there are hints. */
  nudgeDeaf(): void {
    if (!this.#listener.hears) this.nudge()
  }

  #lookLater(): void {
    this.#later = undefined
    this.#look()
    const rest = this.#nudgedAt + LATER_MS - performance.now()
    if (rest > 0) this.#later = setTimeout(() => this.#lookLater(), Math.ceil(rest))
  }

  /** Looks after a while: something is due then. Of several the earliest counts; the others are told again. */
  lookIn(ms: number): void {
    if (this.#mode !== 'running' || ms > LONGEST_WAIT_MS) return
    const at = performance.now() + ms
    if (this.#due !== undefined && this.#dueAt <= at) return
    clearTimeout(this.#due)
    this.#dueAt = at
    this.#due = setTimeout(
      () => {
        this.#due = undefined
        this.#look()
      },
      Math.max(0, Math.ceil(ms)),
    )
  }

  #look(): void {
    if (this.#looking !== undefined) {
      this.#again = true
      return
    }
    this.#looking = this.#work().finally(() => {
      this.#looking = undefined
      if (this.#again && this.#mode === 'running') this.#look()
    })
  }

  async #work(): Promise<void> {
    do {
      this.#again = false
      try {
        let taken: readonly TakenComposite[] = await this.#take()
        while (taken.length > 0) {
          const takenAt = performance.now()
          taken = await this.#advance(taken)
          this.#pace = nextPace(this.#pace, performance.now() - takenAt)
        }
      } catch (error) {
        // What was taken is free again in a moment; the next look finds it.
        this.#log.warn({ error: messageOf(error) }, 'could not advance workflows; will try again')
        this.lookIn(LOOK_AFTER_FAILURE_MS)
        return
      }
    } while (this.#again && this.#mode === 'running')
    if (!this.#listener.hears) this.lookIn(POLL_MS)
  }

  /** It does one thing after the other: what it holds already is of an answer that was lost, and is taken again. */
  #take(): Promise<TakenComposite[]> {
    return persistently(() => takeComposites(this.#db, this.#taking))
  }

  get #taking(): Taking {
    const { batch, takenMs } = this.#pace
    return { limit: batch, ms: takenMs, taker: this.#taker }
  }

  /** Answers what was taken with the last of the decisions. */
  async #advance(taken: readonly TakenComposite[]): Promise<readonly TakenComposite[]> {
    try {
      return await this.#carryOut(taken, true)
    } catch (error) {
      if (!isForGood(error)) throw error
      // One of them cannot be read, decided or carried out: find it, and let the others go on.
      if (taken.length === 1) await this.#giveUp(taken[0]!, error)
      else for (const each of taken) await this.#advanceAlone(each)
      this.#again = true
      return []
    }
  }

  async #advanceAlone(composite: TakenComposite): Promise<void> {
    try {
      await this.#carryOut([composite], false)
    } catch (error) {
      if (!isForGood(error)) throw error
      await this.#giveUp(composite, error)
    }
  }

  /** @param takes Whether to take others at the end: not while more are in hand, which would be taken again. */
  async #carryOut(taken: readonly TakenComposite[], takes: boolean): Promise<readonly TakenComposite[]> {
    await persistently(() => this.#graphs.load(taken.map(({ graph }) => graph)))
    let next: readonly TakenComposite[] = []
    // What they read may be more than fits into memory at once: as many as fit, then the others.
    for (let rest = taken; rest.length > 0; ) {
      const { outcomes, later } = await this.#loadOutcomes(rest)
      const now = rest.filter((each) => !later.includes(each))
      next = await this.#decideAll(now, outcomes, takes && later.length === 0)
      rest = later
    }
    return next
  }

  async #decideAll(
    taken: readonly TakenComposite[],
    outcomes: ReadonlyMap<string, ReadonlyMap<number, Outcome>>,
    takes: boolean,
  ): Promise<readonly TakenComposite[]> {
    let decisions: Decision[] = []
    let since = performance.now()
    for (const [n, composite] of taken.entries()) {
      decisions.push(await this.#decide(composite, outcomes.get(composite.id)))
      if (n === taken.length - 1 || performance.now() - since < LONGEST_THOUGHT_MS) continue
      // Deciding takes this thread; everything else it has to do gets its turn while the database works.
      await this.#apply(decisions)
      decisions = []
      since = performance.now()
    }
    return this.#apply(decisions, takes)
  }

  /** It would fail the same way again: its author has to know. */
  async #giveUp(composite: TakenComposite, error: unknown): Promise<void> {
    this.#log.error(
      { job: composite.id, node: composite.node, error: messageOf(error) },
      'a workflow cannot continue',
    )
    const { id: job, version, wakeups } = composite
    const what = `internal: its next step could not be determined or stored: ${messageOf(error)}`
    await this.#apply([
      {
        advance: { job, version, wakeups, close: { state: 'failed', error: what } },
        children: [],
        chunks: [],
      },
    ])
  }

  async #decide(
    composite: TakenComposite,
    outcomes: ReadonlyMap<number, Outcome> = new Map(),
  ): Promise<Decision> {
    const graph = this.#graphs.get(composite.graph)
    const leaves = await this.#countLeaves(graph, composite)
    return decide(graph, composite, outcomes, leaves)
  }

  async #countLeaves(graph: Graph, { id, kind, node }: TakenComposite): Promise<Endings | undefined> {
    const strategy = kind === 'fanout' ? stepAt(graph, node).strategy : strategyAt(graph, node)
    return strategy.of === 'leaves' ? persistently(() => countLeaves(this.#db, id)) : undefined
  }

  /** @param takes Whether to take what was woken, in the same transaction. One that is stopped takes nothing more. */
  async #apply(decisions: readonly Decision[], takes = false): Promise<readonly TakenComposite[]> {
    const advances = {
      batch: JSON.stringify(decisions.map((each) => each.advance)),
      children: JSON.stringify(decisions.flatMap((each) => each.children)),
      chunks: JSON.stringify(decisions.flatMap((each) => each.chunks)),
    }
    const taking = takes && this.#mode === 'running' ? this.#taking : undefined
    // Also after a lost answer: what was carried out has another version now, and is left out.
    const taken = await persistently(() => applyAdvances(this.#db, advances, taking))
    if (decisions.some((each) => each.children.length > 0)) this.#onChildren()
    return taken
  }

  /** Results and errors that the next decisions read, and the composites that have to wait for theirs. */
  async #loadOutcomes(taken: readonly TakenComposite[]): Promise<{
    readonly outcomes: ReadonlyMap<string, ReadonlyMap<number, Outcome>>
    readonly later: readonly TakenComposite[]
  }> {
    const outcomes = new Map<string, Map<number, Outcome>>()
    const wanted = new Map(taken.map((composite) => [composite, this.#wanted(composite)]))
    const all = [...wanted.values()].flat()
    if (all.length === 0) return { outcomes, later: [] }
    const loaded = await persistently(() => loadOutcomes(this.#db, all))
    for (const { parent, index, result, tooLarge, error } of loaded) {
      const known = outcomes.get(parent) ?? new Map<number, Outcome>()
      known.set(index, { result: result as JsonValue, tooLarge, error })
      outcomes.set(parent, known)
    }
    // Nothing at all was found: there is nothing to wait for.
    const later =
      loaded.length === 0
        ? []
        : taken.filter((each) => wanted.get(each)!.length > 0 && !outcomes.has(each.id))
    return { outcomes, later }
  }

  #wanted(composite: TakenComposite): { parent: string; index: number }[] {
    const { children: standing, state, closing, timedOut } = composite
    if (standing === null || state !== 'running' || closing !== null || timedOut) return []
    const graph = this.#graphs.get(composite.graph)
    const children = childrenOf(graph, composite, new Map())
    const needed = reads(graph, { path: composite.node, input: composite.input }, children)
    const names = new Set([...needed.result, ...needed.results])
    const { steps } = bodyAt(graph, composite.node)
    return standing
      .filter(
        ([index, state]) => names.has(steps[index]!.name) || state === 'failed' || state === 'cancelled',
      )
      .map(([index]) => ({ parent: composite.id, index }))
  }
}

/** Tries again what a lost connection or a conflict got in the way of. For what may be done twice. */
async function persistently<T>(act: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return await act()
    } catch (error) {
      if (tries === TRIES || isForGood(error)) throw error
    }
  }
}

/** The data is to blame, not the moment: a value out of bounds, a row that may not be, a mistake in the code. */
function isForGood(error: unknown): boolean {
  if (sqlState(error) !== undefined) return blamesValues(error)
  if (error instanceof SluiceError) return error.code !== 'DATABASE_UNAVAILABLE'
  return error instanceof RangeError || error instanceof TypeError
}
