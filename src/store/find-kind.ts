import { type Queryable, statement } from '../db/database.ts'

export type NameKind = 'task' | 'workflow'

const FIND = statement(
  'find_kind',
  `select 'task' as kind from sluice.tasks where name = $1
   union all select 'workflow' from sluice.workflows where name = $1 limit 1`,
)

/** What may be submitted under a name, if anything. */
export async function findKind(db: Queryable, name: string): Promise<NameKind | undefined> {
  return (await db.run<{ kind: NameKind }>(FIND, [name]))[0]?.kind
}
