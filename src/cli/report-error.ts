import { sqlState, translateError } from '../db/sqlstate.ts'
import { type ErrorCode, messageOf, SluiceError } from '../errors.ts'
import { type ExitCode, exitCodeOf } from './exit-code.ts'
import type { Output } from './output/output.ts'
import { painter } from './output/style.ts'

const HINTS: Partial<Record<ErrorCode, string>> = {
  JOB_NOT_FOUND: 'sluice ps --all lists jobs; finished ones are deleted after the retention time',
  LANE_NOT_FOUND: 'sluice lanes lists them',
  KEY_NOT_FOUND: 'sluice keys lists them',
  ROLE_NOT_FOUND: 'sluice roles lists them',
  KEY_CONFLICT: 'use another key, or the input of the job that has it',
  ADMISSION_REJECTED: 'nothing was stored; sluice admission shows the limits and changes them',
  SERVER_UNAVAILABLE: '--server or SLUICE_SERVER names the server',
  UNAUTHENTICATED: 'SLUICE_KEY holds the key for the server; sluice keys, on the database, makes one',
  DATABASE_UNAVAILABLE: 'DATABASE_URL names the database; without it the embedded one is used',
  EMBEDDED_UNAVAILABLE: 'DATABASE_URL can name a PostgreSQL of your own, 15 or newer',
}

/** Where a hint depends on what was asked for, the command puts it into the error's details under this name. */
export const HINT = 'hint'

/**
 * Tells a person, or a program, what went wrong: message, code, and what to try.
 *
 * @returns the exit code that goes with it.
 */
export function reportError(
  err: Output,
  error: unknown,
  options: { json: boolean; debug: boolean },
): ExitCode {
  const known = toKnown(error)
  if (known === undefined) return reportBug(err, error, options)
  const { [HINT]: given, ...details } = known.details
  const hint = typeof given === 'string' ? given : HINTS[known.code]
  if (options.json) {
    const { code, message } = known
    err.line(JSON.stringify({ error: { code, message, ...(hint !== undefined && { hint }), details } }))
  } else {
    const paint = painter(err)
    err.line(`${paint('red', 'error:')} ${tidy(known.message)}`)
    err.line(paint('dim', `code:  ${known.code}`))
    if (hint !== undefined) err.line(paint('dim', `hint:  ${tidy(hint)}`))
    if (options.debug) err.line(String(known.stack))
  }
  return exitCodeOf(known.code)
}

/** What the database refuses and Sluice has no name for (a missing right, say) is still not a bug. */
function toKnown(error: unknown): SluiceError | undefined {
  const translated = sqlState(error) === undefined ? error : translateError(error)
  if (translated instanceof SluiceError) return translated
  const state = sqlState(translated)
  if (state === undefined || !(translated instanceof Error)) return undefined
  return new SluiceError('DATABASE_UNAVAILABLE', `the database refused: ${translated.message}`, {
    cause: translated,
    details: { sqlstate: state },
  })
}

function reportBug(err: Output, error: unknown, options: { json: boolean }): ExitCode {
  const message = messageOf(error)
  const stack = error instanceof Error ? error.stack : undefined
  if (options.json) err.line(JSON.stringify({ error: { code: 'INTERNAL', message, stack } }))
  else {
    err.line(`error: ${message}`)
    err.line('This is a bug in Sluice. Please report it with these lines:')
    err.line(stack ?? message)
  }
  return exitCodeOf(undefined)
}

/** Several lines are wanted, of a config's problems for example; anything else a terminal would act on is not. */
function tidy(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for
  return text.replace(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f]/g, ' ')
}
