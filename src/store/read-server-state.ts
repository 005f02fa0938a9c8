import { type Queryable, statement } from '../db/database.ts'

/** Settings and state of the server that Sluice's promises rest on. */
export interface ServerState {
  readonly versionNumber: number
  readonly version: string
  readonly fsync: string
  readonly fullPageWrites: string
  readonly synchronousCommit: string
  readonly isolation: string
  readonly readOnly: boolean
  readonly standby: boolean
  readonly autovacuum: boolean
  /** Connections that ordinary users may have in all. */
  readonly maxConnections: number
  readonly connections: number
  readonly now: Date
}

// Sluice's own statements run with another synchronous_commit: what counts is what others would have.
// pg_stat_database counts the connections of everybody; pg_stat_activity shows strangers' only to the privileged.
const EXAMINE = statement(
  'read_server_state',
  `select current_setting('server_version_num')::integer as "versionNumber", current_setting('server_version') as version,
          current_setting('fsync') as fsync, current_setting('full_page_writes') as "fullPageWrites",
          (select s.reset_val from pg_settings s where s.name = 'synchronous_commit') as "synchronousCommit",
          current_setting('default_transaction_isolation') as isolation,
          current_setting('default_transaction_read_only')::boolean as "readOnly", pg_is_in_recovery() as standby,
          current_setting('autovacuum')::boolean and current_setting('track_counts')::boolean as autovacuum,
          current_setting('max_connections')::integer - current_setting('superuser_reserved_connections')::integer
            - coalesce(current_setting('reserved_connections', true), '0')::integer as "maxConnections",
          (select sum(numbackends) from pg_stat_database)::integer as connections, clock_timestamp() as now`,
)

export async function readServerState(db: Queryable): Promise<ServerState> {
  return (await db.run<ServerState & Record<string, unknown>>(EXAMINE))[0]!
}
