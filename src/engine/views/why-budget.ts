import { inSnapshot, type Queryable } from '../../db/database.ts'
import { formatQuantity, roomToShow, wholeAmount } from '../../model/amount.ts'
import type { Verdict } from '../../policy/decision.ts'
import { plan } from '../../policy/plan.ts'
import { listBudgets, type StoredBudget } from '../../store/list-budgets.ts'
import { listDevices, type StoredDevice } from '../../store/list-devices.ts'
import { listPlanners } from '../../store/list-planners.ts'
import { loadPlanInput } from '../../store/load-plan-input.ts'
import { readPlanInput } from '../dispatch/read-plan-input.ts'

/** What a job waits for that draws from budgets. Fields that do not apply are null. */
export interface BudgetWait {
  readonly budget: string | null
  readonly device: string | null
  /** On one device, and what is free of it there. */
  readonly need: number | null
  readonly room: number | null
  readonly model: string | null
  /** Models on the device that are in the way. */
  readonly heldBy: readonly string[]
  /** When it is estimated to start; null: not known. */
  readonly until: Date | null
}

export interface BudgetObstacle {
  readonly wait: BudgetWait
  readonly reason: string
  /** Of a device without enough room: who holds the rest of it. */
  readonly holder?: string
}

/** Workers that are asked: those beyond say the same as some before them. */
export const MOST_WORKERS = 20

/** The later, the closer the job is to its start: of several workers the nearest counts. */
const CLOSENESS: Readonly<Record<Verdict['kind'], number>> = {
  'too-big': 0,
  'lane-full': 1,
  'no-capacity': 2,
  'shared-full': 3,
  held: 4,
  behind: 5,
  'warm-elsewhere': 6,
  parallel: 7,
  next: 8,
}

/**
 * Why a job that draws from budgets has not started, by the policy that decides it. `undefined`: it draws from none, or
 * starts with the next look.
 */
export function explainBudget(
  db: Queryable,
  jobId: string,
  task: string,
): Promise<BudgetObstacle | undefined> {
  return inSnapshot(db, (tx) => explainIn(tx, jobId, task))
}

async function explainIn(db: Queryable, jobId: string, task: string): Promise<BudgetObstacle | undefined> {
  const workers = await listPlanners(db, MOST_WORKERS, jobId)
  let best: { verdict: Verdict; model: string | null } | undefined
  for (const { id, free, classes } of workers) {
    const input = await loadPlanInput(db, id, classes, { ended: [], unloaded: [] }, jobId)
    const queues = input.queues.filter((queue) => queue.task === task)
    if (queues.length === 0) return undefined
    const decided = plan(readPlanInput(input, id, free, new Map(classes.map((each) => [each, 1_000_000]))))
    const own = new Set(queues.map((queue) => queue.class))
    if (queues.some((queue) => queue.depth === 1) && decided.starts.some(({ classId }) => own.has(classId)))
      return undefined
    const found = decided.verdicts.find(({ classId }) => own.has(classId))
    if (found === undefined) continue
    if (best === undefined || compareCloseness(found.why, best.verdict) > 0)
      best = { verdict: found.why, model: queues[0]!.model }
  }
  if (best === undefined) return undefined
  const { verdict, model } = best
  const what = model === null ? 'it' : `its model ${model}`
  const [budgets, devices] = [await listBudgets(db), await listDevices(db)]
  return describeVerdict(verdict, { task, model, what, budgets, devices })
}

/** How much closer one is to a start than the other, above 0 if it is. Of two devices that are too small the larger one is told. */
export function compareCloseness(one: Verdict, other: Verdict): number {
  if (one.kind === 'too-big' && other.kind === 'too-big') return Math.sign(one.largest - other.largest)
  return CLOSENESS[one.kind] - CLOSENESS[other.kind]
}

/** What a verdict is told of. */
export interface Subject {
  readonly task: string
  readonly model: string | null
  /** What is spoken of: a job's model, unless somebody tells it of the model itself. */
  readonly what: string
  /** Those there are. */
  readonly budgets: readonly Pick<StoredBudget, 'name' | 'bytes'>[]
  readonly devices: readonly KnownDevice[]
}

type KnownDevice = Pick<
  StoredDevice,
  'budget' | 'key' | 'total' | 'limit' | 'capacity' | 'held' | 'heldByModels' | 'room' | 'lostAt' | 'workers'
>

const NOTHING: BudgetWait = {
  budget: null,
  device: null,
  need: null,
  room: null,
  model: null,
  heldBy: [],
  until: null,
}

/** A verdict in words. `undefined`: not budgets hold it, but its lane or the capacity of workers. */
export function describeVerdict(verdict: Verdict, subject: Subject): BudgetObstacle | undefined {
  const { model, what, devices: known } = subject
  const size = (amount: number, budget: string) => sizeOf(amount, budget, subject)
  const free = (room: number, budget: string, device: string) =>
    roomToShow(room, known.find((each) => each.budget === budget && each.key === device)?.capacity ?? null)
  const on = (devices: readonly string[]) => (devices.length === 0 ? '' : ` on ${devices.join(', ')}`)
  switch (verdict.kind) {
    case 'too-big': {
      const { budget, need, largest } = verdict
      return { wait: { ...NOTHING, budget, need, room: largest, model }, reason: tooBig(verdict, subject) }
    }
    case 'shared-full': {
      const { budget, need } = verdict
      const room = free(verdict.room, budget, '')
      const reason = `${sharedFull(verdict, room, subject)}; it needs ${size(need, budget)}`
      return { wait: { ...NOTHING, budget, need, room, model }, reason }
    }
    case 'held': {
      const { budget, device, need, by } = verdict
      const room = free(verdict.room, budget, device)
      const until = momentOf(verdict.until)
      const where = `${size(need, budget)} of ${budget} on ${device}, where ${size(room, budget)} is free`
      // Its own copy cannot make room for it.
      const others = by.filter((each) => each !== model)
      const reason =
        by.length > 0 && others.length === 0
          ? `${what} is loaded, and its next job needs another ${where}${limitOf(budget, device, subject)}`
          : `${what} needs ${where}; ${holders(others, verdict, subject)}${until === null ? '' : `; estimated start ${until.toISOString()}`}`
      const wait = { ...NOTHING, budget, device, need, room, model, heldBy: by, until }
      return { wait, reason, holder: holders(by, verdict, subject) }
    }
    case 'next': {
      const { budget, device, by } = verdict
      const reason = `${what} comes next on ${device}: ${by.length === 0 ? 'the running jobs' : by.join(', ')} will make room`
      return { wait: { ...NOTHING, budget, device, model, heldBy: by }, reason }
    }
    case 'behind': {
      const { device } = verdict
      const first = verdict.model === null ? 'a job' : `model ${verdict.model}`
      const reason = `${first}, which has waited longer or has a higher priority, comes before it on ${device}`
      return {
        wait: { ...NOTHING, device, model, heldBy: verdict.model === null ? [] : [verdict.model] },
        reason,
      }
    }
    case 'parallel': {
      const reason = `${what} is loaded${on(verdict.devices)} and serves as many jobs there as it may; the next job starts when one ends`
      return { wait: { ...NOTHING, device: verdict.devices[0] ?? null, model }, reason }
    }
    case 'warm-elsewhere': {
      const reason = `${what} is loaded${on(verdict.devices)}, and the worker there will be free sooner than another load would finish`
      return { wait: { ...NOTHING, device: verdict.devices[0] ?? null, model }, reason }
    }
    case 'lane-full':
    case 'no-capacity':
      return undefined
    default:
      return verdict satisfies never
  }
}

/** With an enormous quantum a turn ends after all dates there are. */
function momentOf(ms: number | null): Date | null {
  return ms === null || !(ms <= 8.64e15) ? null : new Date(ms)
}

/** As the budget is counted: only of memory are millions megabytes. */
function sizeOf(amount: number, budget: string, { budgets }: Subject): string {
  const { bytes = false } = budgets.find(({ name }) => name === budget) ?? {}
  return formatQuantity(wholeAmount(amount), bytes)
}

/** Why no device will do: there is no such budget, nobody offers one, those that are large enough are lost or held smaller. */
function tooBig(verdict: Verdict & { kind: 'too-big' }, subject: Subject): string {
  const { task, what, budgets, devices } = subject
  const { budget, need, devices: count, largest, offered } = verdict
  if (!budgets.some(({ name }) => name === budget))
    return `task ${task} uses budget ${budget}, which does not exist: it was never declared, or it was deleted`
  const size = (amount: number) => sizeOf(amount, budget, subject)
  const there = devices.filter((each) => each.budget === budget && each.workers.length > 0)
  const lost = there.filter(({ lostAt, total }) => lostAt !== null && (total ?? need) >= need)
  const isLost = `${lost.map(({ key }) => key).join(', ')} ${lost.length === 1 ? 'is' : 'are'} lost`
  if (offered === 0)
    return lost.length === 0
      ? `no worker that runs task ${task} offers a device of budget ${budget}`
      : `${what} needs ${size(need)} of ${budget}; ${isLost}, and no other device is offered`
  const limited = there.find(
    ({ limit, capacity, total }) =>
      limit !== null && limit === capacity && limit < need && (total ?? need) >= need,
  )
  // A number that is said once is enough.
  const isLargest = limited?.capacity === largest
  const aside = isLargest ? ', the largest that a worker offers,' : ''
  const largestHas = `the largest that a worker offers has ${size(largest)}`
  return [
    `${what} needs ${size(need)} of ${budget} on ${count > 1 ? `each of ${count} devices` : 'one device'}`,
    ...(isLargest ? [] : [largest >= need ? `no worker offers ${count} that large` : largestHas]),
    ...(limited === undefined
      ? []
      : [`an operator's limit holds ${limited.key}${aside} at ${size(limited.limit!)}`]),
    ...(lost.length === 0 ? [] : [isLost]),
  ].join('; ')
}

function sharedFull(verdict: Verdict & { kind: 'shared-full' }, room: number, subject: Subject): string {
  const { budget, need } = verdict
  const all = subject.devices.find((each) => each.budget === budget && each.key === '')?.capacity ?? null
  if (all !== null && need > all) return `budget ${budget} has ${sizeOf(all, budget, subject)} in all`
  return `budget ${budget} ${room === 0 ? 'is used up' : `has ${sizeOf(room, budget, subject)} left`}`
}

/** That an operator's limit is what makes the device too small, where that is so. */
function limitOf(budget: string, key: string, subject: Subject): string {
  const device = subject.devices.find((each) => each.budget === budget && each.key === key)
  if (device === undefined || device.limit === null || device.limit !== device.capacity) return ''
  return `: an operator's limit holds it at ${sizeOf(device.limit, budget, subject)}`
}

/**
 * Who holds what is missing: models, running jobs, or programs that Sluice knows only by the memory that is measured as used. The last are
 * named where the books alone would leave enough, and where nobody else is there.
 */
function holders(
  models: readonly string[],
  { budget, device, need }: Verdict & { kind: 'held' },
  { devices }: Subject,
): string {
  const known = devices.find((each) => each.budget === budget && each.key === device)
  const names = [...models]
  const capacity = known?.capacity ?? null
  if (known !== undefined && known.held > known.heldByModels) names.push('running jobs')
  if (known !== undefined && capacity !== null) {
    const byBooks = capacity - known.held
    const isForeign = known.room !== null && known.room < byBooks && (byBooks >= need || names.length === 0)
    if (isForeign) return 'programs outside Sluice use the rest'
  }
  if (names.length === 0) return 'the rest is unknown'
  const single = names.length === 1 && names[0] !== 'running jobs'
  return `${names.join(', ')} ${single ? 'holds' : 'hold'} the rest`
}
