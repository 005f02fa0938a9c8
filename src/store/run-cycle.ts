import { type RawQueryable, statement } from '../db/database.ts'
import type { ClaimedRow } from '../model/claim.ts'

/** The arguments of `sluice.cycle_v1`, which describes them. */
export interface CycleArguments {
  readonly workerId: string
  readonly epoch: number
  readonly known: number
  readonly done: string | null
  readonly endings: string | null
  readonly lanes: readonly string[]
  readonly run: readonly number[]
  readonly want: readonly number[]
  readonly keep: readonly number[]
  readonly free: number
  readonly first: number
  readonly classes: readonly number[]
  readonly classLane: readonly number[]
  readonly classMax: readonly number[]
  readonly afterRank: readonly number[]
  readonly afterId: readonly string[]
  readonly merge: boolean
  readonly hint: boolean
  /** JSON for `sluice.claim_budgeted_v1`; null where nothing draws from budgets. */
  readonly budget: string | null
  /** Others may come before this worker. */
  readonly ordered: boolean
  readonly fresh: readonly number[]
  readonly hears: boolean
}

const CYCLE = statement(
  'run_cycle',
  `select id, class_id, attempt, failures, rank, priority, submitted_at, key, tags, input, mark, policy, trace, place
     from sluice.cycle_v1($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22)`,
)

/** Records endings and takes new jobs, in one round trip. */
export async function runCycle(connection: RawQueryable, cycle: CycleArguments): Promise<ClaimedRow[]> {
  return connection.runRaw<ClaimedRow>(CYCLE, [
    cycle.workerId,
    cycle.epoch,
    cycle.known,
    cycle.done,
    cycle.endings,
    cycle.lanes,
    cycle.run,
    cycle.want,
    cycle.keep,
    cycle.free,
    cycle.first,
    cycle.classes,
    cycle.classLane,
    cycle.classMax,
    cycle.afterRank,
    cycle.afterId,
    cycle.merge,
    cycle.hint,
    cycle.budget,
    cycle.ordered,
    cycle.fresh,
    cycle.hears,
  ])
}
