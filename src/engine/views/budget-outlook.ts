import type { Queryable } from '../../db/database.ts'
import type { Plan, Verdict } from '../../policy/decision.ts'
import { plan } from '../../policy/plan.ts'
import type { BudgetQueue } from '../../store/list-budget-queues.ts'
import { type Lane, listLanes } from '../../store/list-lanes.ts'
import { type LivePlanner, listPlanners } from '../../store/list-planners.ts'
import { loadPlanInput } from '../../store/load-plan-input.ts'
import { readPlanInput } from '../dispatch/read-plan-input.ts'
import { compareCloseness, describeVerdict, MOST_WORKERS, type Subject } from './why-budget.ts'

/** What the policy would do with a queue now. `starts`: with the next look. `no-worker`: nobody is there who could. */
export type Outlook = Verdict['kind'] | 'starts' | 'no-worker'

/** What comes of a queue, and why not more. */
export interface QueueOutlook {
  readonly why: Outlook
  readonly reason: string
  /** On one device, and what is free of it there; null where that is not the matter. */
  readonly need: number | null
  readonly room: number | null
  /** Models in its way. */
  readonly heldBy: readonly string[]
  /** Who holds the rest of a device without enough room: models, running jobs or other programs; null where that is not the matter. */
  readonly holder: string | null
  /** When it is estimated to start; null: not known. */
  readonly until: Date | null
}

/** What waits for a device, with how close it is. */
export interface NextOnDevice extends QueueOutlook {
  readonly task: string
  readonly model: string | null
}

export interface Ahead {
  readonly byClass: ReadonlyMap<number, QueueOutlook>
  /** By the key of the device, or the name of a shared budget; what is closest to its start first. */
  readonly byDevice: ReadonlyMap<string, readonly NextOnDevice[]>
}

const FREE = { need: null, room: null, heldBy: [], holder: null, until: null } as const

/** Asks the policy, for each worker, what it would start, load and wait for now. Nothing is changed by it. */
export async function readBudgetOutlook(
  db: Queryable,
  queues: readonly BudgetQueue[],
  there: Pick<Subject, 'budgets' | 'devices'>,
): Promise<Ahead> {
  if (queues.length === 0) return new Found(queues, there, []).tell()
  const found = new Found(queues, there, await listLanes(db))
  for (const worker of await listPlanners(db, MOST_WORKERS)) {
    const { id, free, classes } = worker
    const input = await loadPlanInput(db, id, classes, { ended: [], unloaded: [] })
    const most = new Map(classes.map((each) => [each, 1_000_000]))
    found.add(worker, plan(readPlanInput(input, id, free, most)))
  }
  return found.tell()
}

interface Entry {
  /** `undefined`: it starts, which is closest of all. */
  readonly verdict: Verdict | undefined
  readonly outlook: QueueOutlook
}

/** Of several workers the one that is closest to a start counts, for the queue and on each device. */
class Found {
  readonly #queues: ReadonlyMap<number, BudgetQueue>
  readonly #there: Pick<Subject, 'budgets' | 'devices'>
  readonly #lanes: readonly Lane[]
  readonly #byClass = new Map<number, Entry>()
  readonly #byDevice = new Map<string, Map<number, Entry>>()

  constructor(
    queues: readonly BudgetQueue[],
    there: Pick<Subject, 'budgets' | 'devices'>,
    lanes: readonly Lane[],
  ) {
    this.#queues = new Map(queues.map((queue) => [queue.classId, queue]))
    this.#there = there
    this.#lanes = lanes
  }

  add(worker: LivePlanner, { starts, verdicts }: Plan): void {
    for (const { classId, deviceUses, newResident } of starts) {
      const queue = this.#queues.get(classId)
      if (queue === undefined) continue
      const what = newResident ? `${queue.model} is loaded` : 'the next job starts'
      const when = worker.full ? `once worker ${worker.name} has a free slot` : 'on the next poll'
      const outlook = { ...FREE, why: 'starts' as const, reason: `${what} ${when}` }
      this.#note(queue, undefined, outlook, [...new Set(deviceUses.map(({ device }) => device))])
    }
    for (const { classId, why } of verdicts) {
      const queue = this.#queues.get(classId)
      if (queue === undefined) continue
      this.#note(queue, why, this.#outlookOf(why, queue), devicesOf(why))
    }
  }

  #outlookOf(why: Verdict, { task, model, lane }: BudgetQueue): QueueOutlook {
    const what = model ?? `task ${task}`
    const told = describeVerdict(why, { task, model, what, ...this.#there })
    if (told === undefined) {
      const named = this.#lanes.find(({ name }) => name === lane)
      const atCapacity = 'the workers that run it are at capacity'
      const reason = why.kind === 'lane-full' && named !== undefined ? fullLane(named) : atCapacity
      return { ...FREE, why: why.kind, reason }
    }
    const { need, room, heldBy, until } = told.wait
    return { why: why.kind, reason: told.reason, need, room, heldBy, holder: told.holder ?? null, until }
  }

  tell(): Ahead {
    const nobody = ({ task }: BudgetQueue) => `no live worker runs task ${task}`
    const byClass = new Map<number, QueueOutlook>()
    for (const [classId, queue] of this.#queues) {
      const entry = this.#byClass.get(classId)?.outlook
      byClass.set(classId, entry ?? { ...FREE, why: 'no-worker', reason: nobody(queue) })
    }
    const byDevice = new Map<string, NextOnDevice[]>()
    for (const [device, entries] of this.#byDevice) {
      const sorted = [...entries].sort(
        ([one, entry], [other, others]) =>
          compareEntries(others, entry) ||
          this.#queues.get(other)!.waitedMs - this.#queues.get(one)!.waitedMs,
      )
      byDevice.set(
        device,
        sorted.map(([classId, { outlook }]) => {
          const { task, model } = this.#queues.get(classId)!
          return { task, model, ...outlook }
        }),
      )
    }
    return { byClass, byDevice }
  }

  #note(
    { classId }: BudgetQueue,
    verdict: Verdict | undefined,
    outlook: QueueOutlook,
    devices: readonly string[],
  ): void {
    const entry = { verdict, outlook }
    keepCloser(this.#byClass, classId, entry)
    for (const device of devices) {
      const entries = this.#byDevice.get(device) ?? new Map<number, Entry>()
      keepCloser(entries, classId, entry)
      this.#byDevice.set(device, entries)
    }
  }
}

function keepCloser(entries: Map<number, Entry>, classId: number, entry: Entry): void {
  const known = entries.get(classId)
  if (known === undefined || compareEntries(entry, known) > 0) entries.set(classId, entry)
}

/** Above 0 where the first is closer to a start. */
function compareEntries({ verdict: one }: Entry, { verdict: other }: Entry): number {
  if (one === undefined || other === undefined) return Number(one === undefined) - Number(other === undefined)
  return compareCloseness(one, other)
}

/** Which limit it is, by name: a lane without slots has one for each worker, its capacity or its cores unless somebody said otherwise. */
function fullLane({ name, enabled, slots, perWorker, running }: Lane): string {
  if (!enabled) return `lane ${name} is paused`
  if (slots === 0)
    return `lane ${name} is closed: it has 0 slots. Open it with: sluice lanes set ${name} --slots NUMBER`
  if (slots !== null && running >= slots) return `lane ${name} is full: ${running} of ${slots} slots are busy`
  if (perWorker === null) return `lane ${name} starts no more jobs at present`
  const most = perWorker > 0 ? String(perWorker) : perWorker === 0 ? 'its number of cores' : 'its capacity'
  return `each worker has as many jobs of lane ${name} as perWorker allows: ${most}`
}

/** The devices it is about; of a shared budget, its name. */
function devicesOf(why: Verdict): readonly string[] {
  switch (why.kind) {
    case 'held':
    case 'next':
    case 'behind':
      return [why.device]
    case 'parallel':
    case 'warm-elsewhere':
      return why.devices
    case 'shared-full':
      return [why.budget]
    case 'too-big':
    case 'lane-full':
    case 'no-capacity':
      return []
    default:
      return why satisfies never
  }
}
