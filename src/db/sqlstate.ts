import type { DatabaseError } from 'pg'
import { type ErrorCode, messageOf, SluiceError } from '../errors.ts'

/** SQLSTATEs raised by Sluice's own SQL functions, and what they mean to a caller. */
const OWN_STATES: Readonly<Record<string, ErrorCode>> = {
  SL001: 'LEASE_LOST',
  SL002: 'TASK_NOT_FOUND',
  SL003: 'LANE_NOT_FOUND',
  SL004: 'KEY_CONFLICT',
  SL005: 'INVALID_ARGUMENT',
  SL007: 'ADMISSION_REJECTED',
  SL008: 'BUDGET_EXCEEDED',
  SL009: 'SURPLUS_WORKER',
  SL010: 'NAME_TAKEN',
  SL011: 'LANE_FIXED',
  SL012: 'TOO_MANY_SCHEDULES',
}

/** The value cannot be stored: bad escape, NUL, lone surrogate, out of range, nested too deep, too large. */
const NOT_STORABLE = new Set([
  '22P02',
  '22P05',
  '22021',
  '22003',
  '22032',
  '54000',
  '54001',
  '22026',
  '22001',
])

/** The server is going away, full, or was never there. The statement may or may not have been carried out. */
const CONNECTION_STATES = new Set([
  '57P01',
  '57P02',
  '57P03',
  '53300',
  '08000',
  '08001',
  '08003',
  '08004',
  '08006',
  '08P01',
])

/** Safe to send again: the database guarantees that nothing was carried out. */
const RETRYABLE_STATES = new Set(['40001', '40P01', '55P03', '53300', '57P03'])

/** The server could not do it, and has undone it: conflicts, timeouts, no resources, no longer the primary. */
function isRefusal(state: string): boolean {
  return RETRYABLE_STATES.has(state) || state === '57014' || state === '25006' || /^5[38]/.test(state)
}

/** Refused before anything ran: the name is unknown on this connection, or taken. */
const PREPARED_STATES = new Set(['26000', '42P05'])

/** The code of an error that came from the server. Every SQLSTATE has a digit; EPIPE and its like have none. */
export function sqlState(error: unknown): string | undefined {
  if (typeof error !== 'object' || error === null || !('code' in error)) return undefined
  const code = error.code
  return typeof code === 'string' && /^(?=.*\d)[0-9A-Z]{5}$/.test(code) ? code : undefined
}

export function isFenced(error: unknown): boolean {
  return sqlState(error) === 'SL001'
}

/** The server refuses what it was given, and would again: bad data, a broken rule of the table, a limit of a value. */
export function blamesValues(error: unknown): boolean {
  return /^(?:22|23|54)/.test(sqlState(error) ?? '')
}

/** A job that has an outcome was to get another one: the primary key of `sluice.outcomes` refused it, and the first one stands. */
export function isSecondOutcome(error: unknown): error is DatabaseError {
  return sqlState(error) === '23505' && (error as DatabaseError).constraint === 'outcomes_pkey'
}

export function isRetryable(error: unknown): boolean {
  return RETRYABLE_STATES.has(sqlState(error) ?? '')
}

export function isPreparedStatementClash(error: unknown): boolean {
  return PREPARED_STATES.has(sqlState(error) ?? '')
}

/**
 * True when the connection has plans for tables or types that exist no more, as after a restore underneath it. Refused before
 * anything was kept: a new connection may be asked the same. Neither text is ever translated.
 */
export function isOutdatedPlan(error: unknown): boolean {
  const state = sqlState(error)
  if (state === '0A000') return (error as { routine?: unknown }).routine === 'RevalidateCachedQuery'
  return (
    state === 'XX000' && /^(?:cache lookup failed|could not open relation with OID)/.test(messageOf(error))
  )
}

/** True when the connection is of no use any more: an error that did not come from the server, or one that ends the session. */
export function isConnectionLoss(error: unknown): boolean {
  if (error instanceof SluiceError)
    return error.code === 'DATABASE_UNAVAILABLE' && isConnectionLoss(error.cause)
  const state = sqlState(error)
  return state === undefined || CONNECTION_STATES.has(state)
}

function detailsOf(code: ErrorCode, detail: string | undefined): Record<string, unknown> {
  if (detail === undefined) return {}
  // Ceiling, active and retryAfter, or the same of a task: numbers, as sluice.refuse_v1 writes them.
  // So are the facts of sluice.checked_uses_v1 and sluice.limit_schedules.
  if (code === 'ADMISSION_REJECTED' || code === 'BUDGET_EXCEEDED' || code === 'TOO_MANY_SCHEDULES')
    return JSON.parse(detail) as Record<string, unknown>
  return { [code === 'KEY_CONFLICT' ? 'jobId' : 'name']: detail }
}

/** Turns what the driver throws into an error of Sluice's where the meaning is known. Others pass through. */
export function translateError(error: unknown): unknown {
  if (error instanceof SluiceError || !(error instanceof Error)) return error
  const state = sqlState(error)
  const own = OWN_STATES[state ?? '']
  if (own !== undefined) {
    const detail = 'detail' in error && typeof error.detail === 'string' ? error.detail : undefined
    return new SluiceError(own, error.message, { cause: error, details: detailsOf(own, detail) })
  }
  if (NOT_STORABLE.has(state ?? '')) {
    return new SluiceError('NOT_STORABLE', `the value cannot be stored: ${error.message}`, { cause: error })
  }
  if (isConnectionLoss(error)) {
    return new SluiceError('DATABASE_UNAVAILABLE', `the database connection failed: ${error.message}`, {
      cause: error,
    })
  }
  if (isRefusal(state ?? '')) {
    return new SluiceError('DATABASE_UNAVAILABLE', `the database did not carry it out: ${error.message}`, {
      cause: error,
    })
  }
  return error
}
