import type { Queryable } from '../db/database.ts'
import { formatQuantity, roomToShow, wholeAmount } from '../model/amount.ts'
import type { Verdict } from '../policy/decision.ts'
import { plan } from '../policy/plan.ts'
import { listDevices, type StoredDevice } from '../store/list-devices.ts'
import { listPlanners } from '../store/list-planners.ts'
import { loadPicture } from '../store/load-picture.ts'
import { readPicture } from './read-picture.ts'

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
  /** When it may claim the room, at the latest; null: nobody knows. */
  readonly until: Date | null
}

export interface BudgetObstacle {
  readonly wait: BudgetWait
  readonly reason: string
}

/** Workers that are asked: those beyond say the same as some before them. */
export const MOST_WORKERS = 20

/** The later, the closer the job is to its start: of several workers the nearest counts. */
export const CLOSENESS: Readonly<Record<Verdict['kind'], number>> = {
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
export async function explainBudget(
  db: Queryable,
  jobId: string,
  task: string,
): Promise<BudgetObstacle | undefined> {
  const workers = await listPlanners(db, MOST_WORKERS, jobId)
  let best: { verdict: Verdict; model: string | null } | undefined
  for (const { id, free, classes } of workers) {
    const picture = await loadPicture(db, id, classes, { ended: [], unloaded: [] }, jobId)
    const queues = picture.queues.filter((queue) => queue.task === task)
    if (queues.length === 0) return undefined
    const decided = plan(readPicture(picture, id, free, new Map(classes.map((each) => [each, 1_000_000]))))
    const own = new Set(queues.map((queue) => queue.class))
    if (queues.some((queue) => queue.depth === 1) && decided.starts.some(({ classId }) => own.has(classId)))
      return undefined
    const found = decided.verdicts.find(({ classId }) => own.has(classId))
    if (found === undefined) continue
    if (best === undefined || CLOSENESS[found.why.kind] > CLOSENESS[best.verdict.kind])
      best = { verdict: found.why, model: queues[0]!.model }
  }
  if (best === undefined) return undefined
  const { verdict, model } = best
  const what = model === null ? 'it' : `its model ${model}`
  return describeVerdict(verdict, { task, model, what, devices: await listDevices(db) })
}

/** What a verdict is told of. */
export interface Subject {
  readonly task: string
  readonly model: string | null
  /** What is spoken of: a job's model, unless somebody tells it of the model itself. */
  readonly what: string
  readonly devices: readonly Pick<StoredDevice, 'budget' | 'key' | 'total' | 'limit' | 'capacity'>[]
}

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
  const { task, model, what, devices: known } = subject
  const size = (amount: number) => formatQuantity(wholeAmount(amount), amount >= 1024 ** 2)
  const free = (room: number, budget: string, device: string) =>
    roomToShow(room, known.find((each) => each.budget === budget && each.key === device)?.capacity ?? null)
  const on = (devices: readonly string[]) => (devices.length === 0 ? '' : ` on ${devices.join(', ')}`)
  switch (verdict.kind) {
    case 'too-big': {
      const { budget, need, devices, largest, offered } = verdict
      const reason =
        offered === 0
          ? `no worker that runs task ${task} offers a device of budget ${budget}`
          : `${what} needs ${size(need)} of ${budget}${devices > 1 ? ` on each of ${devices} devices` : ' on one device'}; the largest that a worker offers has ${size(largest)}${limitBelow(need, budget, subject)}`
      return { wait: { ...NOTHING, budget, need, room: largest, model }, reason }
    }
    case 'shared-full': {
      const { budget, need } = verdict
      const room = free(verdict.room, budget, '')
      const reason = `budget ${budget} is used up: it needs ${size(need)}, ${size(room)} is left`
      return { wait: { ...NOTHING, budget, need, room, model }, reason }
    }
    case 'held': {
      const { budget, device, need, by } = verdict
      const room = free(verdict.room, budget, device)
      const until = momentOf(verdict.until)
      const where = `${size(need)} of ${budget} on ${device}, where ${size(room)} is free`
      // Its own copy cannot make room for it.
      const others = by.filter((each) => each !== model)
      const reason =
        by.length > 0 && others.length === 0
          ? `${what} is loaded, and a job of it needs another ${where}${limitOf(known.find((each) => each.budget === budget && each.key === device))}`
          : `${what} needs ${where}; ${holders(others)}${until === null ? '' : `; its turn comes at ${until.toISOString()} at the latest`}`
      return { wait: { ...NOTHING, budget, device, need, room, model, heldBy: by, until }, reason }
    }
    case 'next': {
      const { budget, device, by } = verdict
      const reason = `${what} comes next on ${device}: ${by.length === 0 ? 'what runs there' : by.join(', ')} makes room`
      return { wait: { ...NOTHING, budget, device, model, heldBy: by }, reason }
    }
    case 'behind': {
      const { device } = verdict
      const first = verdict.model === null ? 'a job' : `model ${verdict.model}`
      const reason = `${first}, which has waited longer or matters more, comes before it on ${device}`
      return {
        wait: { ...NOTHING, device, model, heldBy: verdict.model === null ? [] : [verdict.model] },
        reason,
      }
    }
    case 'parallel': {
      const reason = `${what} is loaded${on(verdict.devices)} and serves as many jobs there as it may: it is a matter of turns`
      return { wait: { ...NOTHING, device: verdict.devices[0] ?? null, model }, reason }
    }
    case 'warm-elsewhere': {
      const reason = `${what} is loaded${on(verdict.devices)}: the worker there will be sooner than another load`
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

/** That an operator's limit is what makes a device too small, where that is so. */
function limitBelow(need: number, budget: string, { devices }: Subject): string {
  return limitOf(
    devices.find(
      ({ budget: of, limit, total }) =>
        of === budget && limit !== null && limit < need && (total ?? need) >= need,
    ),
  )
}

function limitOf(device: Subject['devices'][number] | undefined): string {
  if (device === undefined || device.limit === null || device.limit !== device.capacity) return ''
  const limit = formatQuantity(device.limit, device.limit >= 1024 ** 2)
  return `: an operator's limit holds ${device.key} at ${limit}`
}

function holders(by: readonly string[]): string {
  return by.length === 0
    ? 'running jobs hold the rest'
    : `${by.join(', ')} ${by.length === 1 ? 'holds' : 'hold'} the rest`
}
