import { formatDuration } from './duration.ts'

/** A database session that holds a lock. */
export interface LockHolder {
  /** `null` for a prepared transaction, which belongs to no session. */
  readonly pid: number | null
  readonly application: string | null
  readonly user: string | null
  /** As in `pg_stat_activity`. `null` if this role may not see it. */
  readonly state: string | null
  /** How long it has been in that state. */
  readonly stateMs: number | null
  /** The session that this one waits for, if it does not have the lock yet. All others queue behind it. */
  readonly waitsFor: number | null
}

/** A database lock that blocks Sluice, and the session that holds it. */
export interface HeldLock extends LockHolder {
  /** `lane`: the row of a lane; `table`: a table of the schema. */
  readonly kind: 'lane' | 'table'
  readonly name: string
  /** True if reads of the table wait, too. */
  readonly blocksReading: boolean
}

/** A session that holds a lock for which sessions of Sluice wait. */
export interface BlockingSession extends LockHolder {
  /** The table of the locked row. `null` if it cannot be seen. */
  readonly table: string | null
  /** How many sessions of Sluice wait. */
  readonly sessions: number
  /** Their distinct names. */
  readonly names: readonly string[]
  /** How long the first of them has waited. */
  readonly waitedMs: number
}

/** For example `sluice.queue is locked by pid 123 (psql, idle in transaction for 3m)`. */
export function describeLock(lock: HeldLock): string {
  const what = lock.kind === 'lane' ? `lane ${lock.name}` : `sluice.${lock.name}`
  return `${what} is locked by ${holderOf(lock)}`
}

/** Describes the session with what is known of it. */
export function holderOf({ pid, application, user, state, stateMs, waitsFor }: LockHolder): string {
  if (pid === null) return 'a prepared transaction'
  const since =
    stateMs === null ? '' : ` for ${formatDuration(Math.max(1, Math.round(stateMs / 1000)) * 1000)}`
  const known = [application || user || '', state === null ? '' : `${state}${since}`]
  const waits = waitsFor === null ? '' : `waiting for pid ${waitsFor}`
  const details = [...known, waits].filter((part) => part !== '').join(', ')
  return `pid ${pid}${details === '' ? '' : ` (${details})`}`
}

/** The advice for such a lock. */
export function cureOf({ pid, waitsFor }: LockHolder): string {
  if (pid === null) return 'Find it in pg_prepared_xacts, and commit or roll it back'
  return `End its transaction, or run: select pg_terminate_backend(${waitsFor ?? pid})`
}
