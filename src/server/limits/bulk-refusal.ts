import { isDeepStrictEqual } from 'node:util'
import type { Queryable } from '../../db/database.ts'
import { getJob } from '../../engine/operate/job-control.ts'
import { SluiceError } from '../../errors.ts'
import type { JobView } from '../../store/find-jobs.ts'

/** An entry of a request as far as it decides what is refused. */
export interface BulkEntry {
  readonly task: string
  readonly key?: string | undefined
  readonly lane?: string | undefined
  readonly input: unknown
  /** The submission as it is stored, without its input. */
  readonly fields: string
}

/**
 * Says of which entry a refusal of all of them is: `details.index`, and in words. The database tells a name or a job; the
 * entry is found by it. Where more than one could be meant nothing is added.
 */
export async function withIndex(
  db: Queryable,
  entries: readonly BulkEntry[],
  error: unknown,
): Promise<unknown> {
  if (!(error instanceof SluiceError)) return error
  if (error.code === 'KEY_CONFLICT') return keyConflict(db, entries, error)
  const { name, task } = error.details
  if (error.code === 'TASK_NOT_FOUND')
    return at(
      error,
      entries.findIndex((each) => each.task === name),
    )
  if (error.code === 'LANE_NOT_FOUND')
    return at(
      error,
      entries.findIndex((each) => each.lane === name),
    )
  if (error.code !== 'BUDGET_EXCEEDED') return error
  const drawing = entries.filter((each) => each.task === task)
  // Amounts may depend on the input. Where they are the same, the first entry is refused as every other would be.
  const asked = new Set(
    drawing.map(({ fields }) => JSON.stringify((JSON.parse(fields) as { uses?: unknown }).uses)),
  )
  return asked.size === 1 ? at(error, entries.indexOf(drawing[0]!)) : error
}

async function keyConflict(
  db: Queryable,
  entries: readonly BulkEntry[],
  error: SluiceError,
): Promise<SluiceError> {
  const { jobId } = error.details
  if (typeof jobId !== 'string') return error
  const holder = await getJob(db, jobId).catch(() => undefined)
  if (holder !== undefined)
    return at(
      error,
      entries.findIndex((each) => isRefusedBy(each, holder)),
    )
  // Nobody ever sees that job: it went with the transaction. So another entry has the key.
  const first = new Map<string, number>()
  for (const [index, { task, key, input }] of entries.entries()) {
    if (key === undefined) continue
    const name = JSON.stringify([task, key])
    const other = first.get(name)
    if (other === undefined) first.set(name, index)
    else if (!isDeepStrictEqual(entries[other]!.input, input))
      return new SluiceError(
        'KEY_CONFLICT',
        `jobs.${index}: jobs.${other} in this request has the same key ${JSON.stringify(key)} for task ${task}, with a different input: use different keys, or the same input`,
        { cause: error, details: { index, other } },
      )
  }
  return error
}

function isRefusedBy(entry: BulkEntry, { task, key, input }: JobView): boolean {
  return entry.task === task && entry.key === key && !isDeepStrictEqual(entry.input, input)
}

function at(error: SluiceError, index: number): SluiceError {
  if (index < 0) return error
  return new SluiceError(error.code, `jobs.${index}: ${error.message}`, {
    cause: error.cause,
    details: { ...error.details, index },
  })
}
