import type { Assignment, CycleAnswer } from './assignment.ts'
import type { LeafPolicy } from './composite.ts'

/** What a cycle reports besides jobs. */
export interface CycleReport {
  /** Nothing was done: the general cycle has to run. */
  readonly unsteady?: true
  /** Fewer jobs ended than the worker sent, so its state differs from the database's. */
  readonly resync?: true
  /** Lanes that were skipped because another session has locked them. */
  readonly locked?: readonly string[]
  /** How many free workers come earlier in the order. */
  readonly ahead?: number
  /** After how many milliseconds this worker may take the jobs it left to them. `null` if no job is ready. */
  readonly waitMs?: number | null
  /** Not all classes were scanned, and the worker can take more jobs. */
  readonly more?: true
  /** The jobs of each lane that come first and cannot be assigned. */
  readonly yieldTo?: CycleAnswer['yieldTo']
  /**
   * How long the database took to find the first ready jobs, if that was long. Many dead index entries then precede
   * them.
   */
  readonly scanMs?: number
}

/**
 * One row of a cycle's response: a job, or the report if the id is null. Input, policy, report and time are text from
 * the database. `seq` numbers the claim that holds the job. `place` lists the devices it uses. An assigned job waits
 * for a slot of the worker.
 */
export type ClaimedRow = [
  id: string | null,
  classId: number,
  attempt: number,
  failures: number,
  rank: number,
  priority: number,
  submittedAt: string,
  key: string | null,
  tags: string[] | null,
  input: string | null,
  seq: string,
  policy: string | null,
  trace: string | null,
  place: string | null,
  assigned: boolean,
  report: string | null,
]

const NO_TAGS: readonly string[] = Object.freeze([])

/** Converts a claimed row of this class for its worker. */
export function toAssignment(
  row: ClaimedRow,
  { task, lane, model }: { readonly task: string; readonly lane: string; readonly model: string | null },
): Assignment {
  const [
    id,
    ,
    attempt,
    failures,
    rank,
    priority,
    submittedAt,
    key,
    tags,
    input,
    ,
    policy,
    trace,
    place,
    assigned,
  ] = row
  return {
    id: id!,
    attempt,
    task,
    lane,
    failures,
    priority,
    key,
    tags: tags ?? NO_TAGS,
    submittedAt,
    input,
    ...(policy === null ? {} : { policy: JSON.parse(policy) as LeafPolicy }),
    ...(trace === null ? {} : { trace }),
    ...(place !== null && { devices: JSON.parse(place) as string[] }),
    ...(model !== null && { model }),
    ...(assigned && { prefetched: { rank } }),
  }
}
