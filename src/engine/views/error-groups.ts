import type { Queryable } from '../../db/database.ts'
import { type ErrorGroup, groupFailures } from '../../store/list-failures.ts'

export interface ErrorGroups {
  /** The most frequent first. */
  readonly groups: readonly ErrorGroup[]
  /** How many failures were looked at, the newest. */
  readonly looked: number
  /** False: there are older ones within the time asked for. */
  readonly complete: boolean
}

/** 0.2 s where each has an error of its own of 450 characters, 0.08 s where they are short, with 1,000,000 jobs around them. */
const LOOK = 5000

/**
 * Failures by what their errors have in common. What failed only because something below it did is not counted: its cause
 * is.
 *
 * @param owner Only jobs of this one.
 */
export async function readErrorGroups(
  db: Queryable,
  options: {
    readonly since?: Date | undefined
    readonly task?: string | undefined
    readonly owner?: string | undefined
    readonly limit: number
  },
): Promise<ErrorGroups> {
  const { since = null, task = null, owner = null, limit } = options
  const { groups, looked } = await groupFailures(db, { since, until: null, task, by: owner }, LOOK, limit)
  // How many failures others had is nobody else's business.
  const own = owner === null ? looked : groups.reduce((sum, { count }) => sum + count, 0)
  return { groups, looked: own, complete: looked < LOOK }
}
