import type { Queryable } from '../db/database.ts'
import { formatQuantity } from '../model/amount.ts'
import type { Verdict } from '../policy/decision.ts'
import { plan } from '../policy/plan.ts'
import { findPlanners } from '../store/find-planners.ts'
import { loadPicture, type StoredPicture } from '../store/load-picture.ts'
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
const MOST_WORKERS = 20

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
  const workers = await findPlanners(db, jobId, MOST_WORKERS)
  let best: { verdict: Verdict; picture: StoredPicture; model: string | null } | undefined
  for (const { id, free, classes } of workers) {
    const picture = await loadPicture(db, id, classes, { ended: [], unloaded: [] })
    const queues = picture.queues.filter((queue) => queue.task === task)
    if (queues.length === 0) return undefined
    const decided = plan(readPicture(picture, id, free, new Map(classes.map((each) => [each, 1_000_000]))))
    const own = new Set(queues.map((queue) => queue.class))
    if (queues.some((queue) => queue.depth === 1) && decided.starts.some(({ classId }) => own.has(classId)))
      return undefined
    const found = decided.verdicts.find(({ classId }) => own.has(classId))
    if (found === undefined) continue
    if (best === undefined || CLOSENESS[found.why.kind] > CLOSENESS[best.verdict.kind])
      best = { verdict: found.why, picture, model: queues[0]!.model }
  }
  return best === undefined ? undefined : describeVerdict(best.verdict, best.model, task)
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

/**
 * A verdict in words. `undefined`: not budgets hold it, but its lane or the capacity of workers.
 *
 * @param what What is spoken of: a job's model, unless somebody tells it of the model itself.
 */
export function describeVerdict(
  verdict: Verdict,
  model: string | null,
  task: string,
  what = model === null ? 'it' : `its model ${model}`,
): BudgetObstacle | undefined {
  // Rooms have a billionth more than there is, for the sake of sums.
  const size = (amount: number) => formatQuantity(Math.round(amount * 1000) / 1000, amount >= 1024 ** 2)
  const on = (devices: readonly string[]) => (devices.length === 0 ? '' : ` on ${devices.join(', ')}`)
  switch (verdict.kind) {
    case 'too-big': {
      const { budget, need, devices, largest, offered } = verdict
      const reason =
        offered === 0
          ? `no worker that runs task ${task} offers a device of budget ${budget}`
          : `${what} needs ${size(need)} of ${budget}${devices > 1 ? ` on each of ${devices} devices` : ' on one device'}; the largest that a worker offers has ${size(largest)}`
      return { wait: { ...NOTHING, budget, need, room: largest, model }, reason }
    }
    case 'shared-full': {
      const { budget, need, room } = verdict
      const reason = `budget ${budget} is used up: it needs ${size(need)}, ${size(room)} is left`
      return { wait: { ...NOTHING, budget, need, room, model }, reason }
    }
    case 'held': {
      const { budget, device, need, room, by } = verdict
      const until = momentOf(verdict.until)
      const reason = `${what} needs ${size(need)} of ${budget} on ${device}, where ${size(room)} is free; ${holders(by)}${until === null ? '' : `; it is due at ${until.toISOString()}`}`
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

function holders(by: readonly string[]): string {
  return by.length === 0
    ? 'running jobs hold the rest'
    : `${by.join(', ')} ${by.length === 1 ? 'holds' : 'hold'} the rest`
}
