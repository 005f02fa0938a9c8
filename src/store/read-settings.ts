import { type Queryable, statement } from '../db/database.ts'

export interface SharedSettings {
  readonly heartbeatMs: number
  readonly retentionMs: number
}

const READ = statement('read_settings', 'select name, value::float8 as value from sluice.settings')

/** The settings that are the same for every process. */
export async function readSettings(db: Queryable): Promise<SharedSettings> {
  const rows = await db.run<{ name: string; value: number }>(READ)
  const value = (name: string) => rows.find((row) => row.name === name)!.value
  return { heartbeatMs: value('heartbeat_ms'), retentionMs: value('retention_ms') }
}
