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
