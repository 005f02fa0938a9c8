import { type Queryable, statement } from '../db/database.ts'

export interface KnownTask {
  readonly name: string
  readonly kind: 'task' | 'workflow'
  /** `null` for a workflow: its tasks are in theirs. */
  readonly lane: string | null
  /** An operator moved it to its lane. */
  readonly moved: boolean
}

const LIST = statement(
  'list_tasks',
  `select name, 'task' as kind, lane, moved_at is not null as moved from sluice.tasks
   union all select name, 'workflow', null, false from sluice.workflows order by name`,
)

/** Everything that can be submitted: what some program has made known. */
export async function listTasks(db: Queryable): Promise<KnownTask[]> {
  return db.run<KnownTask & Record<string, unknown>>(LIST)
}
