import { type Queryable, statement } from '../db/database.ts'
import type { JobState } from '../model/job.ts'

/** A job as far as its result matters. */
export interface KeptResult {
  readonly id: string
  readonly state: JobState
  readonly result: unknown
  readonly error: string | null
}

const FIELDS = 'id::text as id, state, result, error'

const FIND = statement(
  'find_result',
  `select ${FIELDS} from sluice.jobs
    where task = $1 and key = $2 and parent_id is null and state = 'completed'
      and input is not distinct from nullif($3::text::jsonb, 'null') and ($4::text is null or submitted_by = $4)
      and (key_owner is null or key_owner = $5)
    order by id desc limit 1`,
)
const LOOK = statement(
  'look_for_result',
  `select ${FIELDS} from sluice.jobs
    where task = $1 and key = $2 and parent_id is null and ($3::text is null or submitted_by = $3)
      and (key_owner is null or key_owner = $4)
    order by state < 'completed' desc, state = 'completed' desc, id desc limit 1`,
)

/**
 * The newest completed job of this key with this input.
 *
 * @param input JSON text.
 * @param owner Only jobs of this author; `undefined` for everybody's.
 * @param caller Whose keys are meant, of tasks whose keys are each owner's.
 */
export async function findResult(
  db: Queryable,
  name: string,
  key: string,
  input: string,
  owner: string | undefined,
  caller: string,
): Promise<KeptResult | undefined> {
  const rows = await db.run<KeptResult & Record<string, unknown>>(FIND, [
    name,
    key,
    input,
    owner ?? null,
    caller,
  ])
  return rows[0]
}

/** The active job of this key, else the newest completed one, else the newest; whatever its input was. */
export async function lookForResult(
  db: Queryable,
  name: string,
  key: string,
  owner: string | undefined,
  caller: string,
): Promise<KeptResult | undefined> {
  return (await db.run<KeptResult & Record<string, unknown>>(LOOK, [name, key, owner ?? null, caller]))[0]
}
