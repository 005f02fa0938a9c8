import type { ErrorCode } from '../errors.ts'

/** What the process says when it ends. Public: scripts match on it. `docs/reference/cli.md` lists it. */
export const EXIT = {
  /** Done as asked. */
  done: 0,
  /** The request failed, or the job that was waited for did. */
  failed: 1,
  /** The command line or the config was wrong. */
  usage: 2,
  /** The database or the server cannot be reached or cannot be used. */
  database: 3,
} as const

/** One of `EXIT`, or 128 and the number of the signal that ended the command. */
export type ExitCode = number

const BY_ERROR: Partial<Record<ErrorCode, ExitCode>> = {
  INVALID_ARGUMENT: EXIT.usage,
  INVALID_CONFIG: EXIT.usage,
  DATABASE_NOT_FOUND: EXIT.database,
  DATABASE_UNAVAILABLE: EXIT.database,
  DATABASE_UNSUITABLE: EXIT.database,
  EMBEDDED_UNAVAILABLE: EXIT.database,
  SERVER_UNAVAILABLE: EXIT.database,
}

export function exitCodeOf(code: ErrorCode | undefined): ExitCode {
  return (code === undefined ? undefined : BY_ERROR[code]) ?? EXIT.failed
}
