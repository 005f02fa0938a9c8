import { type Queryable, statement } from '../db/database.ts'

export interface SharedSettings {
  readonly heartbeatMs: number
  readonly retentionMs: number
  readonly auditRetentionMs: number
  readonly schedulesPerOwner: number
  readonly scheduleIntervalMs: number
  readonly childrenPerTree: number
  readonly treeDepth: number
  /** True when an operator set the heartbeat: programs leave it alone. */
  readonly heartbeatByOperator: boolean
}

const READ = statement(
  'read_settings',
  'select name, value::float8 as value, operator_set as "byOperator" from sluice.settings',
)

/** The settings that are the same for every process. */
export async function readSettings(db: Queryable): Promise<SharedSettings> {
  const rows = await db.run<{ name: string; value: number; byOperator: boolean }>(READ)
  const row = (name: string) => rows.find((each) => each.name === name)!
  return {
    heartbeatMs: row('heartbeat_ms').value,
    retentionMs: row('retention_ms').value,
    auditRetentionMs: row('audit_retention_ms').value,
    schedulesPerOwner: row('schedules_per_owner').value,
    scheduleIntervalMs: row('schedule_interval_ms').value,
    childrenPerTree: row('children_per_tree').value,
    treeDepth: row('tree_depth').value,
    heartbeatByOperator: row('heartbeat_ms').byOperator,
  }
}
