import { type ChildProcessByStdio, spawn } from 'node:child_process'
import { once } from 'node:events'
import { constants, existsSync } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import type { Readable, Writable } from 'node:stream'
import { setTimeout as delay } from 'node:timers/promises'
import { messageOf, SluiceError } from '../errors.ts'
import { explainInexact, findInexactNumber } from '../model/exact-numbers.ts'
import { MAX_JSON_BYTES, MAX_TIMER_MS } from '../model/limits.ts'
import { SECRET_VARIABLES } from '../model/redact.ts'
import { traceVariables } from '../tracing.ts'
import { type Attempt, BrokenWorker, StartFailure } from './attempt.ts'
import { deviceVariables } from './devices/device-variables.ts'
import { closedFiles, type ExecUser, plainEnvironment } from './exec-user.ts'
import { resolveArgv } from './find-program.ts'
import { guardGroup, prepareGuard, releaseGroup, signalGroup } from './orphan-guard.ts'
import { ProgramOutput } from './program-output.ts'

export interface ExecOptions {
  /**
   * The program and its arguments, never a shell string. Elements that start
   * with `./` or `../`, and a program with a `/` in it, are paths from `cwd`;
   * a bare program name is looked up in `PATH`.
   */
  readonly argv: readonly string[]
  /** Where relative paths in `argv` start. Default: the worker's working folder. */
  readonly cwd?: string
  /** Added to the worker's environment. */
  readonly env?: Readonly<Record<string, string>>
  /** How much of stdout and stderr together is kept as the log. Default 1 MiB. */
  readonly maxOutputBytes?: number
  /** A larger result fails the attempt. Default: what can be stored, 16 MiB. */
  readonly maxResultBytes?: number
  /**
   * Runs the program as another user, which is a boundary: it has that user's rights, no other group, and no variable of
   * the worker but `PATH`, `TZ` and the locale. The workdir must belong to that user.
   */
  readonly user?: ExecUser | undefined
}

type Program = Required<Omit<ExecOptions, 'user'>> & Pick<ExecOptions, 'user'>
type Child = ChildProcessByStdio<Writable, Readable, Readable>

const MAX_OUTPUT_BYTES = 1_048_576
const RESULT_FILE = '.sluice-result.json'
/** How long to wait for the end of the output once the program is gone. */
const DRAIN_MS = 1000
/** Why no program can be started, whichever it is. */
const OF_THE_MACHINE: ReadonlySet<string> = new Set(['EAGAIN', 'ENOMEM', 'EMFILE', 'ENFILE', 'ENOSPC'])

/**
 * Runs a program per attempt: input as JSON on stdin, the result as JSON in the
 * file named by `SLUICE_RESULT`, stdout and stderr as the log.
 *
 * The program leads a process group of its own. On a stop the whole group gets
 * SIGTERM, and SIGKILL after the attempt's grace; when the program has ended,
 * what is left of its group is killed; when this process dies, even by SIGKILL,
 * the group is killed too. What leaves the group (`setsid`) is on its own.
 *
 * The executor rejects with
 * - `StartFailure` when the program could not be started, `BrokenWorker` when none could,
 * - the signal's `Stop` when the stop came before the program's end, whatever
 *   its exit code: exit 0 after SIGTERM mostly means "stopped in order",
 * - `SluiceError` `ATTEMPT_FAILED` when it failed or left no usable result.
 *
 * @throws {SluiceError} `INVALID_CONFIG` when `argv` cannot be a command.
 */
export function createExecExecutor(options: ExecOptions): (attempt: Attempt) => Promise<unknown> {
  const cwd = resolve(options.cwd ?? '.')
  const program: Program = {
    argv: resolveArgv(options.argv, cwd),
    cwd,
    env: options.env ?? {},
    maxOutputBytes: options.maxOutputBytes ?? MAX_OUTPUT_BYTES,
    maxResultBytes: options.maxResultBytes ?? MAX_JSON_BYTES,
    user: options.user,
  }
  return (attempt) => runProgram(program, attempt)
}

async function runProgram(program: Program, attempt: Attempt): Promise<unknown> {
  attempt.signal.throwIfAborted()
  const workdir = attempt.workdir()
  const resultPath = join(workdir, RESULT_FILE)
  const child = await start(program, workdir, environment(program, attempt, resultPath))
  attempt.started?.()
  const pid = child.pid!
  const exited = once(child, 'exit') as Promise<[number | null, NodeJS.Signals | null]>
  const closed = once(child, 'close')

  const output = new ProgramOutput(attempt.services, program.maxOutputBytes)
  output.read(child.stdout, 'stdout')
  output.read(child.stderr, 'stderr')
  // EPIPE: it does not read its input, or ended first. Its exit code tells.
  child.stdin.on('error', () => {})
  // Ended like a line: `read -r` of a shell fails on a last line without an end.
  child.stdin.end(`${JSON.stringify(attempt.input ?? null)}\n`)

  const stop = new GroupStop(pid, attempt)
  const [code, signal] = await exited
  const stopped = stop.asked
  await stop.finish()
  await Promise.race([closed, delay(DRAIN_MS, undefined, { ref: false })])
  // Only a process that left the group can still hold them open.
  child.stdout.destroy()
  child.stderr.destroy()

  if (stopped) throw attempt.signal.reason
  if (code !== 0) throw failed(describeExit(code, signal), output.lastErrors())
  return readResult(resultPath, program)
}

/**
 * Starts the program under guard.
 *
 * @throws {StartFailure} when the program is missing or not executable.
 * @throws {BrokenWorker} when this machine can start none: too many processes
 *   or open files, no memory, no workdir.
 */
async function start(program: Program, workdir: string, env: NodeJS.ProcessEnv): Promise<Child> {
  const [command = '', ...args] = program.argv
  try {
    const { user } = program
    prepareGuard()
    const child = spawn(command, args, {
      cwd: workdir,
      env,
      detached: true,
      stdio: ['pipe', 'pipe', 'pipe', ...(user === undefined ? [] : closedFiles())],
      // Changing the user also drops every other group of this process.
      ...(user !== undefined && { uid: user.uid, gid: user.gid }),
    }) as Child
    if (child.pid === undefined) {
      const [error] = await once(child, 'error')
      throw error
    }
    guardGroup(child.pid)
    return child
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : ''
    // A missing working folder is reported like a missing program.
    if (OF_THE_MACHINE.has(code) || !existsSync(workdir))
      throw new BrokenWorker(`cannot start ${command}: ${String(error)}`, error)
    const why =
      code === 'ENOENT'
        ? 'it does not exist, or the interpreter named in its first line does not (ENOENT)'
        : code === 'EACCES'
          ? `it is not executable for ${program.user === undefined ? 'this user' : `user ${program.user.name}`}, or a folder above it or of PATH is closed to them (EACCES)`
          : String(error)
    throw new StartFailure(`cannot start ${command}: ${why}`, error)
  }
}

function environment(program: Program, attempt: Attempt, resultPath: string): NodeJS.ProcessEnv {
  const { user } = program
  const env = user === undefined ? { ...process.env } : plainEnvironment(user, process.env)
  for (const name of SECRET_VARIABLES) delete env[name]
  return {
    ...env,
    ...program.env,
    SLUICE_RESULT: resultPath,
    SLUICE_JOB_ID: attempt.job.id,
    SLUICE_ATTEMPT: String(attempt.number),
    ...deviceVariables(attempt),
    ...traceVariables(attempt.trace),
  }
}

/** Ends a program's process group: politely when the attempt is stopped, in any case at the end. */
class GroupStop {
  /** Whether the attempt was stopped while the program ran. */
  asked = false
  readonly #pid: number
  readonly #attempt: Attempt
  readonly #onAbort = () => this.#ask()
  #killed = false
  #timer: NodeJS.Timeout | undefined

  constructor(pid: number, attempt: Attempt) {
    this.#pid = pid
    this.#attempt = attempt
    if (attempt.signal.aborted) this.#ask()
    else attempt.signal.addEventListener('abort', this.#onAbort, { once: true })
  }

  /**
   * Call it when the leader has exited. After a stop the others of the group
   * keep the rest of the grace: a script's child may still be tidying up.
   */
  async finish(): Promise<void> {
    this.#attempt.signal.removeEventListener('abort', this.#onAbort)
    while (this.asked && !this.#killed && signalGroup(this.#pid, 0)) await delay(20)
    clearTimeout(this.#timer)
    this.#kill()
    releaseGroup(this.#pid)
  }

  #ask(): void {
    this.asked = true
    signalGroup(this.#pid, 'SIGTERM')
    this.#timer = setTimeout(() => this.#kill(), Math.min(this.#attempt.graceMs, MAX_TIMER_MS))
  }

  #kill(): void {
    this.#killed = true
    signalGroup(this.#pid, 'SIGKILL')
  }
}

function describeExit(code: number | null, signal: NodeJS.Signals | null): string {
  return signal === null ? `exited with code ${code}` : `killed by ${signal}`
}

async function readResult(path: string, { maxResultBytes: maxBytes, user }: Program): Promise<unknown> {
  let file: FileHandle
  try {
    // Not blocking and not following links: the path may have become anything.
    file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOFOLLOW)
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return null
    throw failed('the result file cannot be read', String(error))
  }
  try {
    const stat = await file.stat()
    if (!stat.isFile()) throw failed('SLUICE_RESULT is not a plain file')
    // A second name of a file that the program itself could not read.
    if (user !== undefined && stat.uid !== user.uid)
      throw failed(`SLUICE_RESULT belongs to user ${stat.uid}; it must belong to ${user.name}`)
    if (stat.size > maxBytes)
      throw failed(`the result has ${stat.size} bytes; at most ${maxBytes} are allowed`)
    // No more than was measured: what left the group may still be writing.
    const bytes = Buffer.alloc(stat.size)
    const { bytesRead } = await file.read(bytes, 0, stat.size, 0)
    return parseResult(bytes.subarray(0, bytesRead))
  } finally {
    await file.close()
  }
}

function parseResult(bytes: Buffer): unknown {
  if (bytes.length === 0) throw failed('the result file is empty; write JSON to it or leave it out')
  let text: string
  let value: unknown
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(bytes)
    value = JSON.parse(text)
  } catch (error) {
    throw failed('the result is not JSON in UTF-8', messageOf(error))
  }
  const inexact = findInexactNumber(text)
  if (inexact !== undefined) throw failed('the result cannot be stored', explainInexact(inexact))
  return value
}

function failed(what: string, details = ''): SluiceError {
  return new SluiceError('ATTEMPT_FAILED', details === '' ? what : `${what}: ${details}`)
}
