import type { Assignment } from './assignment.ts'
import type { LeafPolicy } from './composite.ts'

/** What else a cycle has to tell. */
export interface CycleReport {
  /** Nothing was done: the general cycle has to be run. */
  readonly unsteady?: true
  /** Fewer jobs ended than were sent: the worker is out of step. */
  readonly resync?: true
  /** Lanes left out because another session has locked them. */
  readonly locked?: readonly string[]
  /** How many free workers come first. */
  readonly ahead?: number
  /** In how many milliseconds it may take what it left to them; `null`: nothing is ready. */
  readonly waitMs?: number | null
  /** Not all classes were looked at, and it can take more. */
  readonly more?: true
  /** How long the database took to find the first ready jobs, if that was long: there are many dead entries before them. */
  readonly scanMs?: number
}

/**
 * A row of the answer of a cycle: a job, or with a null id the report. Input, policy, report and time are the database's text. `seq` numbers
 * the claim that holds the job. `place` lists the devices it uses. One that is assigned waits for a slot of the worker.
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

/** A job of this class as its worker gets it. */
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
