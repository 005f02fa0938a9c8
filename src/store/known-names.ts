import { type Queryable, statement } from '../db/database.ts'

const KNOWN = statement(
  'known_names',
  `select coalesce((select array_agg(t.name order by t.name) from sluice.tasks t), '{}') as tasks,
          coalesce((select array_agg(w.name order by w.name) from sluice.workflows w), '{}') as workflows`,
)

/** The names of everything that can be submitted. */
export async function knownNames(
  db: Queryable,
): Promise<{ readonly tasks: readonly string[]; readonly workflows: readonly string[] }> {
  return (await db.run<{ tasks: string[]; workflows: string[] }>(KNOWN))[0]!
}
