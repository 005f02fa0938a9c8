import { type Queryable, statement } from '../db/database.ts'
import type { ResolvedUses, StoredAmount } from '../model/amount.ts'
import type { ModelOnDevice } from '../model/device.ts'

/** What `sluice.plan_input_v1` tells. Times are milliseconds of the database's clock. */
export interface StoredPlanInput {
  readonly now: number
  readonly queues: readonly StoredQueue[]
  readonly devices: readonly {
    readonly key: string
    readonly budget: string
    readonly capacity: number | null
    readonly room: number | null
    /** Held beyond its capacity, which was made smaller. */
    readonly over: number
  }[]
  readonly budgets: readonly {
    readonly name: string
    readonly kind: 'shared' | 'device'
    readonly quantum: number
    readonly maxWaitMs: number
    /** Of a shared one; null: without bounds. */
    readonly room: number | null
  }[]
  readonly residents: readonly StoredCopy[]
  readonly models: Readonly<
    Record<
      string,
      {
        readonly loadMs: number | null
        readonly runMs: number | null
        readonly restMs: number | null
        readonly amounts: Readonly<Record<string, number>>
      }
    >
  >
}

export interface StoredQueue {
  readonly class: number
  readonly task: string
  readonly model: string | null
  readonly depth: number
  readonly priority: number
  readonly since: number
  /** What the head draws, where that is its own. */
  readonly own: ResolvedUses | null
  readonly uses: Readonly<Record<string, StoredAmount>> | null
  readonly perJob: Readonly<Record<string, StoredAmount>> | null
  readonly parallel: number
  readonly expressed: boolean
  readonly most: number
  /** Of the first jobs those whose amounts nobody has worked out yet. */
  readonly unread: readonly { readonly id: string; readonly input: unknown }[] | null
}

/** A copy of a model on the devices of a worker. */
export interface StoredCopy {
  readonly worker: string
  readonly model: string
  readonly devices: readonly string[]
  readonly shares: readonly { readonly budget: string; readonly device: string; readonly amount: number }[]
  readonly loadedAt: number | null
  readonly unloading: boolean
  readonly running: number
  readonly idleSince: number | null
  readonly pinned: boolean
}

const LOAD = statement('load_plan_input', 'select sluice.plan_input_v1($1, $2, $3, $4, $5, $6) as input')

/** Entries of the index that one look may count; 10,000 take 1 to 2 ms. Beyond its share a queue is just deep. */
const COUNTED = 20_000
const DEEPEST = 1000

/**
 * What a worker needs to plan.
 *
 * @param soon Endings and unloaded copies that the planned cycle will report: they are taken for recorded.
 * @param jobId Shown as the head of its class: for those who ask about this one.
 */
export async function loadPlanInput(
  db: Queryable,
  workerId: string,
  classes: readonly number[],
  soon: { readonly ended: readonly string[]; readonly unloaded: readonly ModelOnDevice[] },
  jobId: string | null = null,
): Promise<StoredPlanInput> {
  const depth = Math.min(DEEPEST, Math.ceil(COUNTED / Math.max(1, classes.length)))
  const values = [workerId, classes, soon.ended, JSON.stringify(soon.unloaded), depth, jobId]
  return (await db.run<{ input: StoredPlanInput }>(LOAD, values))[0]!.input
}
