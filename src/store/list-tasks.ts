import { type Queryable, statement } from '../db/database.ts'

export interface KnownTask {
  readonly name: string
  readonly lane: string
}

const LIST = statement('list_tasks', 'select name, lane from sluice.tasks order by name')

/** Every task that some program has made known, with its lane. */
export async function listTasks(db: Queryable): Promise<KnownTask[]> {
  return db.run<KnownTask & Record<string, unknown>>(LIST)
}
