import { setTimeout as delay } from 'node:timers/promises'
import type pg from 'pg'
import type { HeldLock } from '../model/held-lock.ts'
import { sqlState } from './sqlstate.ts'

/** How long an upgrade may hold some locks while it waits for others. PostgreSQL looks for deadlocks after a second; this stays below. */
const LOCK_MS = 500

/** After this long, a caller is told which session holds a lock. Most locks are gone sooner. */
const REPORT_MS = 3000

const HOLDER = `
  select 'table' as kind, c.relname as name, l.pid, a.application_name as application, a.usename as "user", a.state,
         (extract(epoch from clock_timestamp() - a.state_change) * 1000)::float8 as "stateMs", null::integer as "waitsFor",
         l.mode = 'AccessExclusiveLock' as "blocksReading"
    from pg_locks l
    join pg_class c on c.oid = l.relation and c.relnamespace = 'sluice'::regnamespace and c.relname = any ($1)
    left join pg_stat_activity a on a.pid = l.pid
   where l.locktype = 'relation' and l.granted and l.pid is distinct from pg_backend_pid()
     and l.database = (select d.oid from pg_database d where d.datname = current_database())
   order by a.xact_start nulls first, c.relname limit 1` // A prepared transaction has no start here, and may stay for ever.

/**
 * Locks the tables and views that the upgrade changes, all of them or none.
 *
 * Locks taken one by one while it runs would deadlock with workers, who take them in another order. As long as somebody holds
 * one of them, this releases all and tries again, so that others go on in between.
 *
 * @param onWait Called once when it has waited for some seconds, with the lock of the oldest transaction.
 */
export async function lockRelations(
  client: pg.Client,
  names: readonly string[],
  onWait: (lock: HeldLock) => void,
): Promise<void> {
  const { rows } = await client.query<{ list: string | null; names: string[] }>(
    `select string_agg(format('sluice.%I', c.relname), ', ' order by c.relname) as list from pg_class c
      where c.relnamespace = 'sluice'::regnamespace and c.relkind in ('r', 'p', 'v') and c.relname = any ($1)`,
    [names],
  )
  const list = rows[0]!.list
  if (list === null) return
  await client.query('savepoint unlocked')
  const began = performance.now()
  let reported = false
  for (let ms = 50; ; ms = Math.min(ms + 50, LOCK_MS)) {
    if (await lockWithin(client, list, ms)) return
    if (!reported && performance.now() - began > REPORT_MS) {
      const [lock] = (await client.query<HeldLock>(HOLDER, [names])).rows
      if (lock !== undefined) onWait(lock)
      reported = lock !== undefined
    }
    await delay(ms)
  }
}

/** Whether it has all locks; otherwise it has none. */
async function lockWithin(client: pg.Client, list: string, ms: number): Promise<boolean> {
  // Not lock_timeout, because that would start again for each table.
  await client.query(`set local statement_timeout = ${ms}`)
  const began = performance.now()
  try {
    await client.query(`lock table ${list} in access exclusive mode`)
  } catch (error) {
    // A statement that was cancelled by an administrator has the same code, but ends sooner.
    if (sqlState(error) !== '57014' || performance.now() - began < ms) throw error
    await client.query('rollback to savepoint unlocked')
    return false
  }
  await client.query('set local statement_timeout = 0')
  return true
}
