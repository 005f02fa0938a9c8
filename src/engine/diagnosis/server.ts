import type { Queryable } from '../../db/database.ts'
import { formatDuration } from '../../model/duration.ts'
import { readServerState, type ServerState } from '../../store/read-server-state.ts'
import { type Finding, ok } from './finding.ts'

const OLDEST_VERSION = 150_000
/** The clock of the database decides everything, so a difference only affects displays. */
const CLOCK_TOLERANCE_MS = 5_000

/** Settings of the server on which guarantees depend. */
export async function checkServer({ db, now }: { db: Queryable; now: number }): Promise<Finding[]> {
  const server = await readServerState(db)
  return [
    server.versionNumber >= OLDEST_VERSION
      ? ok('server', `PostgreSQL ${server.version}`)
      : bad('server', `PostgreSQL ${server.version} is too old`, 'use PostgreSQL 15 or newer'),
    server.fsync === 'on'
      ? ok('fsync', 'on')
      : bad('fsync', 'off: accepted jobs can be lost', 'set fsync = on in postgresql.conf and reload'),
    server.fullPageWrites === 'on'
      ? ok('full_page_writes', 'on')
      : bad(
          'full_page_writes',
          'off: a crash can damage the data',
          'set full_page_writes = on, unless the storage guarantees atomic page writes',
        ),
    synchronousCommit(server.synchronousCommit),
    server.isolation === 'read committed'
      ? ok('isolation', server.isolation)
      : bad(
          'isolation',
          `default_transaction_isolation is ${server.isolation}`,
          `set it to 'read committed' for this database or role`,
        ),
    writable(server),
    server.autovacuum
      ? ok('autovacuum', 'on')
      : bad(
          'autovacuum',
          'off: dead rows are never removed, and everything slows down',
          'set autovacuum = on and track_counts = on, and reload',
        ),
    clock(server.now.getTime() - now),
  ]
}

function synchronousCommit(value: string): Finding {
  if (value !== 'off') return ok('synchronous_commit', value)
  return {
    check: 'synchronous_commit',
    level: 'warning',
    found:
      'off: a crash can lose jobs submitted in your own transactions or with SQL. Sluice commits its own with on',
    advice: 'set synchronous_commit = on for this database or role',
  }
}

function writable(server: ServerState): Finding {
  if (server.standby)
    return bad('writable', 'this is a standby, which is read-only', 'connect to the primary')
  if (server.readOnly)
    return bad(
      'writable',
      'default_transaction_read_only is on',
      'set default_transaction_read_only = off for this database or role',
    )
  return ok('writable', 'yes')
}

function clock(differenceMs: number): Finding {
  const difference = Math.abs(differenceMs)
  if (difference <= CLOCK_TOLERANCE_MS) return ok('clock', 'this machine and the database agree')
  const rounded = formatDuration(Math.round(difference / 1000) * 1000)
  return {
    check: 'clock',
    level: 'note',
    found: `this machine is ${rounded} ${differenceMs > 0 ? 'behind' : 'ahead of'} the database`,
    advice:
      "the clock of the database decides everything: if it is wrong, schedules and jobs with a runAt start at the wrong time; if this machine's is, only the ages shown here are wrong. Synchronize both (NTP)",
  }
}

function bad(check: string, found: string, advice: string): Finding {
  return { check, level: 'problem', found, advice }
}
