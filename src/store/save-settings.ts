import { type Queryable, statement } from '../db/database.ts'

const SAVE = statement(
  'save_settings',
  `update sluice.settings s set value = g.value, updated_at = clock_timestamp(), updated_by = $3, operator_set = s.operator_set or $4
     from unnest($1::text[], $2::bigint[]) g(name, value)
    where s.name = g.name and s.value <> g.value and ($4 or not s.operator_set)`,
)

/** Changes shared settings. What an operator set is only changed by an operator. */
export async function saveSettings(
  db: Queryable,
  settings: {
    readonly heartbeatMs?: number
    readonly retentionMs?: number
    readonly auditRetentionMs?: number
  },
  by: string,
  operator: boolean,
): Promise<void> {
  const names: string[] = []
  const values: number[] = []
  if (settings.heartbeatMs !== undefined) names.push('heartbeat_ms') && values.push(settings.heartbeatMs)
  if (settings.retentionMs !== undefined) names.push('retention_ms') && values.push(settings.retentionMs)
  if (settings.auditRetentionMs !== undefined)
    names.push('audit_retention_ms') && values.push(settings.auditRetentionMs)
  if (names.length > 0) await db.run(SAVE, [names, values, by, operator])
}
