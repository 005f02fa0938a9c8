import { type Queryable, statement } from '../db/database.ts'

/** A task that an operator moved. */
export interface MovedTask {
  readonly task: string
  readonly lane: string
  /** Where files and code say. */
  readonly declaredLane: string
  readonly at: Date
  readonly by: string
}

/** A lane that an operator deleted. */
export interface DeletedLane {
  readonly lane: string
  /** Where its tasks and jobs went; `null` when it had none. */
  readonly movedTo: string | null
  /** A file or a program declares it: a reset brings it back. */
  readonly declared: boolean
  readonly at: Date
  readonly by: string
}

const MOVED = statement(
  'list_moved_tasks',
  `select t.name as task, t.lane, coalesce(t.declared_lane, t.lane) as "declaredLane", t.moved_at as at, t.moved_by as by
     from sluice.tasks t where t.moved_at is not null order by t.name`,
)

const DELETED = statement(
  'list_deleted_lanes',
  `select l.name as lane, l.deleted_to as "movedTo", l.declared <> '{}' as declared, l.deleted_at as at, l.updated_by as by
     from sluice.lanes l where l.deleted_at is not null order by l.name`,
)

/** Tasks that operators moved. */
export function listMovedTasks(db: Queryable): Promise<MovedTask[]> {
  return db.run<MovedTask & Record<string, unknown>>(MOVED)
}

/** Lanes that operators deleted. */
export function listDeletedLanes(db: Queryable): Promise<DeletedLane[]> {
  return db.run<DeletedLane & Record<string, unknown>>(DELETED)
}
