import type { Queryable } from '../../db/database.ts'
import { translateError } from '../../db/sqlstate.ts'
import { hasCode, messageOf } from '../../errors.ts'
import type { EndedAttempt } from '../../model/assignment.ts'
import type { ModelNews, ModelOnDevice } from '../../model/device.ts'
import { HINT_INTERVAL_MS, MAX_COUNT } from '../../model/limits.ts'
import { plan } from '../../policy/plan.ts'
import { LEARNING } from '../../policy/plan-input.ts'
import { loadPlanInput, type StoredPlanInput } from '../../store/load-plan-input.ts'
import { settleUses } from '../../store/settle-uses.ts'
import { resolveUses } from '../submit/resolve-uses.ts'
import { AvoidedSwaps } from './avoided-swaps.ts'
import { readPlanInput, sharedOf } from './read-plan-input.ts'

/** How often a worker that takes nothing looks whether others need the room of its models. */
const LOOK_WHEN_FULL_MS = 500
/** After a plan that others were faster than. */
const LOOK_AFTER_MISS_MS = 30
/**
 * After a look that started nothing. A worker that is busy with jobs that draw from nothing has hundreds of cycles a
 * second, and must not pay for a look with each.
 */
const REST_MS = 10
/** Times of jobs are stored at most this often. */
const LEARN_MS = 1000

/** Where a job that draws from budgets runs. */
export interface Drawn {
  readonly model: string | null
  readonly devices: readonly string[]
}

export interface BudgetRequest {
  readonly workerId: string
  /** Classes that draw from budgets, with how many of each could be started. None: nothing is taken. */
  readonly classes: readonly { readonly id: number; readonly max: number }[]
  /** Of all classes that draw from budgets, whether they can be started now or not. Copies of others serve nobody. */
  readonly models: ReadonlySet<string | null>
  readonly free: number
  readonly ended: readonly EndedAttempt[]
  readonly news: ModelNews | undefined
  /** What the worker runs that draws, by job; those that end now included. */
  readonly drawn: ReadonlyMap<string, Drawn>
}

export interface BudgetedCycle {
  /** For `sluice.cycle_v1`; null: this cycle is not about budgets. */
  readonly budget: string | null
  /** How many of each class are to be claimed; the others not at all. */
  readonly counts: ReadonlyMap<number, number>
}

const NOT_ABOUT_BUDGETS: BudgetedCycle = { budget: null, counts: new Map() }

/**
 * Plans what a worker starts of the classes that draw from budgets: looks, lets the policy decide, and writes down what
 * the cycle has to carry out.
 */
export class BudgetPlanner {
  readonly #db: Queryable
  #lookedAt = Number.NEGATIVE_INFINITY
  #startedSome = false
  #dueAt = Number.POSITIVE_INFINITY
  #toldAt = 0
  /** Room came free and others have not been told yet. */
  #owesHint = false
  #learnedAt = 0
  #ran = new Map<string, { jobs: number; totalMs: number }>()
  #holdsCopies = false
  readonly #avoided = new AvoidedSwaps()
  #unload: readonly ModelOnDevice[] = []

  constructor(db: Queryable) {
    this.#db = db
  }

  /** In how long the plan may come out differently though nobody says a word. */
  get lookAgainMs(): number {
    const hintAt = this.#owesHint ? this.#toldAt + HINT_INTERVAL_MS : Number.POSITIVE_INFINITY
    return Math.max(0, Math.min(this.#dueAt, hintAt) - performance.now())
  }

  /** Models are loaded under its name, as of the last look. */
  get holdsCopies(): boolean {
    return this.#holdsCopies
  }

  /** Models of this worker that have to make room, as of the last look. */
  get unload(): readonly ModelOnDevice[] {
    return this.#unload
  }

  /** Less was there than planned: somebody was faster, and the next plan will tell. */
  missed(): void {
    this.#dueAt = Math.min(this.#dueAt, performance.now() + LOOK_AFTER_MISS_MS)
  }

  /** Another incarnation: nothing is loaded under its name. */
  startOver(): void {
    this.#holdsCopies = false
    this.#unload = []
    this.#owesHint = false
    this.#ran = new Map()
    this.#avoided.startOver()
  }

  async prepare(request: BudgetRequest): Promise<BudgetedCycle> {
    const { classes, ended, news, drawn, free } = request
    const now = performance.now()
    // What was due is looked at now, or there is nothing to look for: either way it is not due again.
    if (now >= this.#dueAt) this.#dueAt = Number.POSITIVE_INFINITY
    // Told once a look: a worker that hears it again answers again.
    this.#unload = []
    const ending = ended.filter(({ id }) => drawn.has(id))
    const silent = ending.length === 0 && news === undefined && !this.#mayTell(now)
    const rests = silent && !this.#startedSome && now - this.#lookedAt < REST_MS
    const looks =
      (free > 0 && classes.length > 0 && !rests) ||
      (this.#holdsCopies && now - this.#lookedAt > LOOK_WHEN_FULL_MS)
    if (rests) this.#dueAt = Math.min(this.#dueAt, this.#lookedAt + REST_MS)
    if (!looks && silent) return NOT_ABOUT_BUDGETS
    const notes = this.#notes(request, ending, now)
    if (!looks) return { budget: written(notes), counts: new Map() }
    this.#lookedAt = now
    try {
      return this.#decide(request, await this.#look(request), notes)
    } catch (error) {
      // Nothing has happened. What draws from no budget must not wait for a look that failed; should the database be away,
      // the cycle will tell.
      if (!hasCode(translateError(error), 'DATABASE_UNAVAILABLE')) throw error
      this.missed()
      return { budget: written(notes), counts: new Map() }
    }
  }

  async #look({ workerId, classes, ended, news }: BudgetRequest): Promise<StoredPlanInput> {
    const soon = { ended: ended.map(({ id }) => id), unloaded: news?.unloaded ?? [] }
    const ids = classes.map(({ id }) => id)
    const input = await loadPlanInput(this.#db, workerId, ids, soon)
    const unread = input.queues.flatMap(({ task, uses, perJob, unread }) =>
      (unread ?? []).map(({ id, input }) => {
        try {
          return { id, uses: resolveUses(task, uses, perJob, input) }
        } catch (error) {
          return { id, error: `budget: what it needs cannot be worked out: ${messageOf(error)}` }
        }
      }),
    )
    if (unread.length === 0) return input
    await settleUses(this.#db, unread)
    return loadPlanInput(this.#db, workerId, ids, soon)
  }

  #decide(request: BudgetRequest, input: StoredPlanInput, notes: object): BudgetedCycle {
    const { workerId, classes, models, free, ended } = request
    const view = readPlanInput(input, workerId, free, new Map(classes.map(({ id, max }) => [id, max])))
    const decided = plan(view)
    const mine = input.residents.filter(({ worker }) => worker === workerId)
    this.#holdsCopies = mine.length > 0 || decided.starts.some(({ newResident }) => newResident)
    const going = decided.unloads.map(({ resident }) => input.residents[Number(resident)]!)
    // Its tasks no longer draw from budgets: nobody would ever come for it, and only the worker's end would free its room.
    const left = mine.filter((copy) => !models.has(copy.model) && !copy.unloading && copy.running === 0)
    going.push(...left.filter((copy) => !going.includes(copy)))
    this.#unload = [
      ...mine.filter(({ unloading, running }) => unloading && running === 0),
      ...going.filter(({ worker }) => worker === workerId),
    ].flatMap(({ model, devices }) => devices.map((device) => ({ model, device })))
    const outOfMemory = ended.some(({ ending }) => ending.kind === 'out_of_memory')
    this.#dueAt = performance.now() + (outOfMemory ? 0 : decided.lookAgainMs)
    this.#startedSome = decided.starts.length > 0
    const starts = decided.starts.map(({ classId, count, model, deviceUses, newResident }) => {
      const queue = input.queues.find((each) => each.class === classId)!
      const { expressed } = queue
      return {
        class: classId,
        count,
        model,
        new: newResident,
        deviceUses,
        shared: sharedOf(queue, input),
        expressed,
      }
    })
    const counts = new Map<number, number>()
    for (const { class: id, count } of starts) counts.set(id, (counts.get(id) ?? 0) + count)
    const avoided = this.#avoided.count(input, decided.starts)
    const budget = written({
      ...notes,
      ...(starts.length > 0 && { starts }),
      ...(going.length > 0 && {
        unload: going.map(({ worker, model, devices }) => ({ worker, model, devices })),
      }),
      ...(Object.keys(avoided).length > 0 && { avoided }),
    })
    return { budget, counts }
  }

  /** What the cycle records, whatever is planned. */
  #notes({ ended, news, drawn }: BudgetRequest, ending: readonly EndedAttempt[], now: number): object {
    const oom = ended.flatMap(({ id, ending }) => {
      if (ending.kind !== 'out_of_memory') return []
      const { model = null, devices = [] } = drawn.get(id) ?? {}
      return [{ id, model, devices, needed: ending.needed ?? null, loading: ending.loading }]
    })
    const idle = idleCopies(drawn, new Set(ending.map(({ id }) => id)))
    const { loaded = [], unloaded = [], ran = [] } = news ?? {}
    this.#owesHint ||= ending.length > 0 || unloaded.length > 0
    const tells = this.#mayTell(now)
    if (tells) this.#toldAt = now
    this.#owesHint &&= !tells
    const learned = this.#learn(ran, now)
    return {
      ...(loaded.length > 0 && { loaded }),
      ...(unloaded.length > 0 && { unloaded }),
      ...(learned.length > 0 && { ran: learned }),
      ...(idle.length > 0 && { idle }),
      ...(oom.length > 0 && { oom }),
      ...(loaded.length + learned.length > 0 && { learning: LEARNING }),
      ...(tells && { hint: true }),
    }
  }

  #mayTell(now: number): boolean {
    return this.#owesHint && now - this.#toldAt >= HINT_INTERVAL_MS
  }

  /** Added up until it is time to store them: a row that changed with every job would be the hottest of all. */
  #learn(ran: ModelNews['ran'], now: number): ModelNews['ran'] {
    for (const { model, jobs, totalMs } of ran) {
      const { jobs: before = 0, totalMs: beforeMs = 0 } = this.#ran.get(model) ?? {}
      this.#ran.set(model, { jobs: Math.min(before + jobs, MAX_COUNT), totalMs: beforeMs + totalMs })
    }
    if (this.#ran.size === 0 || now - this.#learnedAt < LEARN_MS) return []
    const all = [...this.#ran].map(([model, sums]) => ({ model, ...sums }))
    this.#ran = new Map()
    this.#learnedAt = now
    return all
  }
}

function written(cycle: object): string | null {
  return Object.keys(cycle).length === 0 ? null : JSON.stringify(cycle)
}

/** Copies of models whose last job ends now. */
function idleCopies(drawn: ReadonlyMap<string, Drawn>, ending: ReadonlySet<string>): Drawn[] {
  const copies = new Map<string, { copy: Drawn; left: number }>()
  for (const [id, copy] of drawn) {
    if (copy.model === null || copy.devices.length === 0) continue
    const key = JSON.stringify([copy.model, copy.devices])
    const known = copies.get(key) ?? { copy, left: 0 }
    if (!ending.has(id)) known.left++
    copies.set(key, known)
  }
  return [...copies.values()].filter(({ left }) => left === 0).map(({ copy }) => copy)
}
