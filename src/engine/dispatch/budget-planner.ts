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

/** How often a worker that takes nothing checks whether others need the room of its models. */
const LOOK_WHEN_FULL_MS = 500
/** How soon to look again after a plan that other workers preempted. */
const LOOK_AFTER_MISS_MS = 30
/**
 * How soon to look again after a look that started nothing. A worker busy with jobs without budgets has hundreds of
 * cycles a second and must not pay for a look in each.
 */
const REST_MS = 10
/** Job durations are stored at most this often. */
const LEARN_MS = 1000

/** The devices on which a job that uses budgets runs. */
export interface Drawn {
  readonly model: string | null
  readonly devices: readonly string[]
}

export interface BudgetRequest {
  readonly workerId: string
  /** Classes that use budgets, and how many jobs of each could start. Empty: nothing is taken. */
  readonly classes: readonly { readonly id: number; readonly max: number }[]
  /**
   * The models of all classes that use budgets, whether they can start now or not. Copies of other models serve no
   * class.
   */
  readonly models: ReadonlySet<string | null>
  readonly free: number
  readonly ended: readonly EndedAttempt[]
  readonly news: ModelNews | undefined
  /** The running jobs that use budgets, including those that end in this cycle. */
  readonly drawn: ReadonlyMap<string, Drawn>
}

export interface BudgetedCycle {
  /** For `sluice.cycle_v1`. null: this cycle does not concern budgets. */
  readonly budget: string | null
  /** How many jobs of each class to claim. Other classes are not claimed. */
  readonly counts: ReadonlyMap<number, number>
}

const NOT_ABOUT_BUDGETS: BudgetedCycle = { budget: null, counts: new Map() }

/**
 * Plans which jobs of classes that use budgets a worker starts: reads the state, lets the policy decide, and records
 * what the cycle has to carry out.
 */
export class BudgetPlanner {
  readonly #db: Queryable
  #lookedAt = Number.NEGATIVE_INFINITY
  #startedSome = false
  #dueAt = Number.POSITIVE_INFINITY
  #toldAt = 0
  /** Room was freed, and other workers have not been notified yet. */
  #owesHint = false
  #learnedAt = 0
  #ran = new Map<string, { jobs: number; totalMs: number }>()
  #holdsCopies = false
  readonly #avoided = new AvoidedSwaps()
  #unload: readonly ModelOnDevice[] = []

  constructor(db: Queryable) {
    this.#db = db
  }

  /** How soon the plan may change without an event. */
  get lookAgainMs(): number {
    const hintAt = this.#owesHint ? this.#toldAt + HINT_INTERVAL_MS : Number.POSITIVE_INFINITY
    return Math.max(0, Math.min(this.#dueAt, hintAt) - performance.now())
  }

  /** Models are loaded under its name, as of the last look. */
  get holdsCopies(): boolean {
    return this.#holdsCopies
  }

  /** Models of this worker to evict, as of the last look. */
  get unload(): readonly ModelOnDevice[] {
    return this.#unload
  }

  /** Less was available than planned, because another worker was faster. The next plan accounts for it. */
  missed(): void {
    this.#dueAt = Math.min(this.#dueAt, performance.now() + LOOK_AFTER_MISS_MS)
  }

  /** The worker has a new incarnation: no model is loaded under its name. */
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
    // Due work is looked at now, or there is nothing to look for. Either way, it is no longer due.
    if (now >= this.#dueAt) this.#dueAt = Number.POSITIVE_INFINITY
    // Reported once per look, because a worker that gets it again reports again.
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
      // The look failed and changed nothing. Jobs without budgets must not wait for it. If the database is unavailable,
      // the cycle reports it.
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
          return { id, error: `budget: its needs could not be evaluated: ${messageOf(error)}` }
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
    // Its tasks no longer use budgets, so no job would ever use the copy, and only the worker's end would free its
    // room.
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

  /** What the cycle records, independently of the plan. */
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

  /** Summed until it is stored, because a row that changes with every job would be a hotspot. */
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
