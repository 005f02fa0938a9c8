import { type RawQueryable, statement } from '../db/database.ts'
import type { EndedAttempt } from '../model/assignment.ts'
import type { ClaimedRow } from '../model/claim.ts'
import { MAX_DETAIL_BYTES } from '../model/error-detail.ts'

/** Characters of results in one cycle; a single one may have more. PostgreSQL refuses 256 MB of JSON in one value. */
const MAX_RESULTS = 32 * 1024 * 1024

/** The arguments of `sluice.cycle_v1`, which describes them. */
export interface CycleArguments {
  readonly workerId: string
  readonly epoch: number
  readonly known: number
  readonly ended: readonly EndedAttempt[]
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
  const { done, endings } = encodeEndings(cycle.ended)
  return connection.runRaw<ClaimedRow>(CYCLE, [
    cycle.workerId,
    cycle.epoch,
    cycle.known,
    done,
    endings,
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

/** How many of the first endings may go into one cycle, at least one. */
export function howManyFit(ended: readonly EndedAttempt[]): number {
  let characters = 0
  for (let i = 0; i < ended.length; i++) {
    const { ending } = ended[i]!
    characters += ending.kind === 'completed' ? ending.result.length : MAX_DETAIL_BYTES
    if (i > 0 && characters > MAX_RESULTS) return i
  }
  return ended.length
}

/** Endings as `sluice.cycle_v1` takes them: what completed, and the others. */
function encodeEndings(ended: readonly EndedAttempt[]): {
  done: string | null
  endings: string | null
} {
  let done = ''
  const others: object[] = []
  for (const { id, attempt, ending, detail } of ended) {
    if (ending.kind === 'completed')
      done += `${done === '' ? '' : ','}"${id}":{"attempt":${attempt},"result":${ending.result}}`
    else {
      others.push({
        id,
        attempt,
        ending: ending.kind,
        error: 'error' in ending ? ending.error : null,
        delayMs: 'delayMs' in ending ? Math.round(ending.delayMs) : null,
        ...(detail !== undefined && { detail }),
      })
    }
  }
  return {
    done: done === '' ? null : `{${done}}`,
    endings: others.length === 0 ? null : JSON.stringify(others),
  }
}
