import { type Queryable, statement } from '../db/database.ts'

const SAVE = statement(
  'save_settings',
  `update sluice.settings s set value = g.value, updated_at = clock_timestamp(), updated_by = $3, operator_set = s.operator_set or $4
     from unnest($1::text[], $2::bigint[]) g(name, value)
    where s.name = g.name and s.value <> g.value and ($4 or not s.operator_set)`,
)

const NAMES = {
  heartbeatMs: 'heartbeat_ms',
  retentionMs: 'retention_ms',
  auditRetentionMs: 'audit_retention_ms',
  schedulesPerOwner: 'schedules_per_owner',
  scheduleIntervalMs: 'schedule_interval_ms',
  childrenPerTree: 'children_per_tree',
  treeDepth: 'tree_depth',
} as const

/** Changes shared settings. What an operator set is only changed by an operator. */
export async function saveSettings(
  db: Queryable,
  settings: { readonly [K in keyof typeof NAMES]?: number },
  by: string,
  operator: boolean,
): Promise<void> {
  const given = (Object.keys(NAMES) as (keyof typeof NAMES)[]).filter((key) => settings[key] !== undefined)
  if (given.length === 0) return
  const names = given.map((key) => NAMES[key])
  const values = given.map((key) => settings[key])
  await db.run(SAVE, [names, values, by, operator])
}
