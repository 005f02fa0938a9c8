import type { Assignment } from './assignment.ts'
import type { LeafPolicy } from './composite.ts'

/**
 * A job as a claim gives it: id, class, attempt, failures, rank, priority, submitted at, key, tags, input, mark, policy, trace, place.
 * Input, policy and time are the database's text; the mark is when it was claimed, in microseconds. The place lists the devices it draws from. A null id: the worker is out of step and must resync;
 * with a class, it left jobs to free workers that come first: as many as the class says, for as many milliseconds as the attempt;
 * with a class and tags, the tags are lanes that it left out because another session has locked them.
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
  mark: string,
  policy: string | null,
  trace: string | null,
  place: string | null,
]

const NO_TAGS: readonly string[] = Object.freeze([])

/** A job of this class as its worker gets it. */
export function toAssignment(
  row: ClaimedRow,
  { task, lane, model }: { readonly task: string; readonly lane: string; readonly model: string | null },
): Assignment {
  const [id, , attempt, failures, , priority, submittedAt, key, tags, input, , policy, trace, place] = row
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
  }
}
