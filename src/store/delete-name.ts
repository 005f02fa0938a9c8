import { type Queryable, statement } from '../db/database.ts'

const DELETE = statement('delete_name', 'select sluice.delete_name_v1($1) as kind')

/** `guarded`: a task that needs approval, which is kept. */
export type DeletedKind = 'task' | 'workflow' | 'guarded'

/** Forgets a task or a workflow. Gives which of them it was; `null` when it was neither. */
export async function deleteName(db: Queryable, name: string): Promise<DeletedKind | null> {
  return (await db.run<{ kind: DeletedKind | null }>(DELETE, [name]))[0]!.kind
}
