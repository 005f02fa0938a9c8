import { type RawQueryable, statement } from '../db/database.ts'
import type { EndedAttempt } from '../model/assignment.ts'
import type { ClaimedRow, CycleReport } from '../model/claim.ts'
import { countFitting } from '../model/count-fitting.ts'
import { MAX_DETAIL_BYTES } from '../model/error-detail.ts'

/** A worker that looks for more classes does not try a steady cycle: each of the others has to be looked at. */
const STEADY_CLASSES = 16
/** Characters of results in one cycle; a single one may have more. PostgreSQL refuses 256 MB of JSON in one value. */
const MAX_RESULTS = 32 * 1024 * 1024

/** The ending of an attempt, with the claim that the worker holds it by. */
export type ClaimedEnding = EndedAttempt & { readonly seq: number }

/** An assigned job that has started, with the claim that the worker holds it by. */
export interface Begun {
  readonly id: string
  readonly seq: number
}

/** The arguments of `sluice.cycle_v1`, which describes them. */
export interface CycleArguments {
  readonly workerId: string
  readonly epoch: number
  readonly known: number
  readonly ended: readonly ClaimedEnding[]
  /** Assigned jobs that have started since the last cycle, without those that have ended. */
  readonly begun: readonly Begun[]
  readonly lanes: readonly string[]
  readonly endedBy: readonly number[]
  readonly run: readonly number[]
  readonly want: readonly number[]
  readonly keep: readonly number[]
  readonly free: number
  readonly turn: number
  readonly classes: readonly number[]
  readonly classLane: readonly number[]
  readonly classMax: readonly number[]
  /** How many jobs of each class to assign beyond `free`; -1 where none is assigned and none asked for. */
  readonly classAhead: readonly number[]
  readonly afterRank: readonly number[]
  readonly afterId: readonly string[]
  readonly fresh: readonly number[]
  readonly hint: boolean
  /** The class that this cycle is likely to be about alone. */
  readonly steadyClass: number | undefined
  /** JSON for `sluice.claim_budgeted_v1`; null where nothing draws from budgets. */
  readonly budget: string | null
  /** Others may come before this worker. */
  readonly ordered: boolean
  readonly hears: boolean
}

const CYCLE = statement(
  'run_cycle',
  `select id, class_id, attempt, failures, rank, priority, submitted_at, key, tags, input, seq, policy, trace, devices, assigned, report
     from sluice.cycle_v1($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25, $26, $27, $28)`,
)

export interface CycleRows {
  readonly jobs: readonly ClaimedRow[]
  readonly report: CycleReport
  /** It was about one class alone. */
  readonly steady: boolean
  /** A steady cycle was tried. */
  readonly wasTried: boolean
}

const STEADY = statement(
  'run_steady_cycle',
  `select id, class_id, attempt, failures, rank, priority, submitted_at, key, tags, input, seq, policy, trace, devices, assigned, report
     from sluice.steady_cycle_v1($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23)`,
)

/** Records endings and takes new jobs, in one round trip; in two where it looks steady and is not. */
export async function runCycle(connection: RawQueryable, cycle: CycleArguments): Promise<CycleRows> {
  const endings = encodeEndings(byClaim(cycle.ended))
  const at = cycle.steadyClass === undefined ? -1 : cycle.classes.indexOf(cycle.steadyClass)
  const wasTried = at >= 0 && looksSteady(cycle, at)
  if (wasTried) {
    const answer = toAnswer(await runSteady(connection, cycle, at, endings))
    if (answer.report.unsteady !== true) return { ...answer, steady: true, wasTried }
  }
  return { ...toAnswer(await runAny(connection, cycle, endings)), steady: false, wasTried }
}

/**
 * Whether `sluice.steady_cycle_v1` may do: the worker uses the slots of one lane and takes jobs of one class (`at`).
 * There may be jobs of its other classes: the database looks.
 */
function looksSteady(
  { ended, endedBy, lanes, run, keep, free, classes, ...cycle }: CycleArguments,
  at: number,
): boolean {
  const lane = cycle.classLane[at]! - 1
  const most = free + Math.max(0, cycle.classAhead[at]!)
  return (
    classes.length <= STEADY_CLASSES &&
    most > 0 &&
    cycle.classMax[at]! >= most &&
    cycle.budget === null &&
    (run[lane]! + ended.length > 0 || keep[lane]! > 0) &&
    lanes.every((_, i) => i === lane || run[i]! + endedBy[i]! + keep[i]! === 0)
  )
}

function toAnswer(rows: ClaimedRow[]): Pick<CycleRows, 'jobs' | 'report'> {
  const report = rows.at(-1)?.[0] === null ? rows.pop()![15] : null
  return { jobs: rows, report: report === null ? {} : (JSON.parse(report) as CycleReport) }
}

async function runSteady(
  connection: RawQueryable,
  cycle: CycleArguments,
  at: number,
  { done, seqs, results, ran, endings }: EncodedEndings,
): Promise<ClaimedRow[]> {
  const { begun, begunSeqs } = encodeBegun(cycle.begun)
  const lane = cycle.classLane[at]! - 1
  const others = <T>(values: readonly T[]) => values.filter((_, i) => i !== at)
  return connection.runRaw<ClaimedRow>(STEADY, [
    cycle.workerId,
    cycle.epoch,
    cycle.known,
    done,
    seqs,
    results,
    ran,
    begun,
    begunSeqs,
    cycle.lanes[lane],
    cycle.run[lane],
    cycle.keep[lane],
    cycle.free,
    Math.max(0, cycle.classAhead[at]!),
    cycle.classes[at],
    cycle.afterRank[at],
    cycle.afterId[at],
    cycle.ordered ? cycle.fresh[at] : null,
    cycle.hint,
    others(cycle.classes),
    others(cycle.afterRank),
    others(cycle.afterId),
    endings,
  ])
}

async function runAny(
  connection: RawQueryable,
  cycle: CycleArguments,
  { done, seqs, results, ran, endings }: EncodedEndings,
): Promise<ClaimedRow[]> {
  const { begun, begunSeqs } = encodeBegun(cycle.begun)
  return connection.runRaw<ClaimedRow>(CYCLE, [
    cycle.workerId,
    cycle.epoch,
    cycle.known,
    done,
    seqs,
    results,
    ran,
    endings,
    begun,
    begunSeqs,
    cycle.lanes,
    cycle.endedBy,
    cycle.run,
    cycle.want,
    cycle.keep,
    cycle.free,
    cycle.turn,
    cycle.classes,
    cycle.classLane,
    cycle.classMax,
    cycle.classAhead,
    cycle.afterRank,
    cycle.afterId,
    cycle.fresh,
    cycle.hint,
    cycle.budget,
    cycle.ordered,
    cycle.hears,
  ])
}

/** How many of the first endings may go into one cycle, at least one. */
export function endingsPerCycle(ended: readonly EndedAttempt[]): number {
  return countFitting(ended, MAX_RESULTS, ({ ending }) =>
    ending.kind === 'completed' ? ending.result.length : MAX_DETAIL_BYTES,
  )
}

/** The endings of each claim together, in their order: the database records a claim that ends as a whole without a search for each job. */
function byClaim(ended: readonly ClaimedEnding[]): readonly ClaimedEnding[] {
  const isInOrder = ended.every(({ seq }, i) => i === 0 || ended[i - 1]!.seq <= seq)
  return isInOrder ? ended : ended.toSorted((a, b) => a.seq - b.seq)
}

interface EncodedEndings {
  /** Arrays as PostgreSQL writes them: the driver would quote each number. */
  readonly done: string | null
  readonly seqs: string | null
  readonly results: string | null
  /** For how many milliseconds each has run; null where all started when they were claimed. */
  readonly ran: string | null
  readonly endings: string | null
}

/** Endings as `sluice.cycle_v1` takes them: what completed, and the others. */
function encodeEndings(ended: readonly ClaimedEnding[]): EncodedEndings {
  const done: string[] = []
  const seqs: number[] = []
  const results: string[] = []
  const ran: (number | 'null')[] = []
  const now = performance.now()
  let returnsSomething = false
  let startsLater = false
  const others: object[] = []
  for (const { id, seq, ending, detail, startedAt } of ended) {
    if (ending.kind === 'completed') {
      done.push(id)
      seqs.push(seq)
      results.push(ending.result)
      returnsSomething ||= ending.result !== 'null'
      startsLater ||= startedAt !== undefined
      ran.push(startedAt === undefined ? 'null' : Math.round((now - startedAt) * 100) / 100)
    } else {
      others.push({
        id,
        seq,
        ending: ending.kind,
        error: 'error' in ending ? ending.error : null,
        delayMs: 'delayMs' in ending ? Math.round(ending.delayMs) : null,
        ...(detail !== undefined && { detail }),
        ...(startedAt !== undefined && { ranMs: now - startedAt }),
      })
    }
  }
  return {
    done: done.length === 0 ? null : `{${done.join()}}`,
    seqs: done.length === 0 ? null : `{${seqs.join()}}`,
    results: returnsSomething ? `[${results.join(',')}]` : null,
    ran: startsLater ? `{${ran.join()}}` : null,
    endings: others.length === 0 ? null : JSON.stringify(others),
  }
}

function encodeBegun(begun: readonly Begun[]) {
  if (begun.length === 0) return { begun: null, begunSeqs: null }
  return {
    begun: `{${begun.map(({ id }) => id).join()}}`,
    begunSeqs: `{${begun.map(({ seq }) => seq).join()}}`,
  }
}
