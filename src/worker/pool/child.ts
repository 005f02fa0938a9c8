import { type ChildProcess, fork } from 'node:child_process'
import type { Writable } from 'node:stream'
import { builtEntry } from '../../built-entry.ts'
import { messageOf, SluiceError } from '../../errors.ts'
import { MAX_TIMER_MS } from '../../model/limits.ts'
import { type Attempt, BrokenWorker } from '../attempt.ts'
import { guardGroup, prepareGuard, releaseGroup, signalGroup } from '../orphan-guard.ts'
import { fromWireError } from '../thrown.ts'
import {
  type Initialiser,
  type OfRun,
  parseFromChild,
  type TaskRef,
  type ToChild,
  WORKDIR_FD,
  type WorkdirAnswer,
} from './messages.ts'
import { type ProcessLink, ServedRun } from './served-run.ts'

export interface ChildOptions {
  readonly initialiser: Initialiser | undefined
  readonly startTimeoutMs: number
}

/** A process that was told to end, or whose channel is closed, gets this long. */
const END_MS = 2000

/**
 * One process of the pool, from its start to its end.
 *
 *     starting -> idle <-> running
 *         \         \         \
 *          `---------`---------`-> gone    killed, crashed, told to end
 *
 * It leads a process group, so that what its tasks start ends with it.
 */
export class PoolChild {
  /** Resolves when the process can take work. Rejects with `BrokenWorker` when it never could. */
  readonly ready: Promise<void>
  /** Resolves when the process has ended and its last words have been read. Never rejects. */
  readonly gone: Promise<void>
  /** Runs started so far. */
  jobs = 0
  /** Resident bytes at the end of the last run. */
  rss = 0
  /** How it ended, once it is gone. */
  ending = ''
  /** Whether it was told to end. */
  isRetired = false
  readonly #process: ChildProcess
  readonly #startTimeout: NodeJS.Timeout
  readonly #link: ProcessLink = {
    send: (message) => this.#send(message),
    answerWorkdir: (answer) => this.#answerWorkdir(answer),
    kill: (cause) => this.kill(cause),
  }
  #state: 'starting' | 'idle' | 'running' | 'gone' = 'starting'
  #run: ServedRun | undefined
  /** Why it ended, when somebody knows better than the exit code. */
  #cause: unknown
  #killTimer: NodeJS.Timeout | undefined
  #becomeReady: () => void = () => {}
  #failStart: (error: BrokenWorker) => void = () => {}
  #becomeGone: () => void = () => {}

  constructor(options: ChildOptions) {
    this.ready = new Promise((resolve, reject) => {
      this.#becomeReady = resolve
      this.#failStart = reject
    })
    this.gone = new Promise((resolve) => {
      this.#becomeGone = resolve
    })
    prepareGuard()
    this.#process = fork(builtEntry('./child-main', import.meta.url), [], {
      detached: true,
      execArgv: inheritedFlags(),
      serialization: 'advanced',
      stdio: ['ignore', 'inherit', 'inherit', 'ipc', 'pipe'],
    })
    if (this.#process.pid !== undefined) guardGroup(this.#process.pid)
    this.#process.on('message', (message) => this.#hear(message))
    this.#process.on('error', (error) => this.#onError(error))
    this.#process.on('disconnect', () => this.#endWithin(END_MS, 'closed its channel to the worker'))
    this.#process.on('exit', (code, signal) => this.#onExit(code, signal))
    this.#workdirPipe()?.on('error', () => {})
    const { initialiser, startTimeoutMs } = options
    this.#startTimeout = setTimeout(
      () => this.kill(new Error(`it was not ready within ${startTimeoutMs} ms`)),
      Math.min(startTimeoutMs, MAX_TIMER_MS),
    )
    this.#send({ type: 'init', initialiser })
  }

  get pid(): number | undefined {
    return this.#process.pid
  }

  get isStarting(): boolean {
    return this.#state === 'starting'
  }

  /** Whether `run` may be called. */
  get isIdle(): boolean {
    const { exitCode, signalCode } = this.#process
    return this.#state === 'idle' && this.#killTimer === undefined && exitCode === null && signalCode === null
  }

  /**
   * Runs one attempt. Call it only while `isIdle`.
   *
   * Rejects with what the task threw; with the signal's reason when the process
   * had to be killed for it; with `ATTEMPT_FAILED` when the process died; with
   * `StartFailure` when it died before it had loaded the task, which burns no attempt.
   */
  run(ref: TaskRef, attempt: Attempt): Promise<unknown> {
    if (!this.isIdle) throw new SluiceError('PROCESS_POOL_FULL', `pool process ${this.pid} is not idle`)
    this.jobs += 1
    const { input, job, number, graceMs, trace, devices, model } = attempt
    const order = { run: this.jobs, ...ref, input, job, attempt: number, graceMs, trace, devices }
    // Throws when the input cannot be copied; the process then knows nothing of it.
    this.#send({ type: 'run', ...order, model: model && { ...model, value: undefined, loaded: false } })
    this.#state = 'running'
    this.#run = new ServedRun(this.jobs, attempt, this.#link)
    return this.#run.outcome
  }

  /** Asks an idle process to end; kills it when it does not. */
  retire(): void {
    if (this.#state === 'gone') return
    this.isRetired = true
    this.#send({ type: 'exit' })
    this.#endWithin(END_MS, 'did not end when asked to')
  }

  /** Kills the process with all it has started. A running attempt rejects with `cause`. */
  kill(cause: unknown): void {
    this.#cause ??= cause
    const { pid } = this.#process
    if (this.#state !== 'gone' && pid !== undefined) signalGroup(pid, 'SIGKILL')
  }

  #endWithin(ms: number, why: string): void {
    if (this.#state === 'gone') return
    this.#killTimer ??= setTimeout(() => this.kill(failed(`the process ${why}`)), ms)
  }

  #hear(raw: unknown): void {
    const message = parseFromChild(raw)
    if (message === undefined) return
    switch (message.type) {
      case 'ready':
        if (this.#state !== 'starting') return
        clearTimeout(this.#startTimeout)
        this.#state = 'idle'
        this.#becomeReady()
        return
      case 'failed':
        this.#cause ??= fromWireError(message.error)
        return
      case 'crashed':
        this.#cause ??= this.#crash(fromWireError(message.error))
        return
      default:
        this.#hearOfRun(message)
    }
  }

  #hearOfRun(message: OfRun): void {
    if (this.#run?.id !== message.run) {
      // From code an earlier task left behind. One that waits for a workdir gets a no.
      if (message.type === 'workdir') this.#answerWorkdir({ error: 'the attempt has ended' })
      return
    }
    const rss = this.#run.hear(message)
    if (rss === undefined) return
    this.rss = rss
    this.#run = undefined
    this.#state = 'idle'
  }

  #onError(error: Error): void {
    // Without a pid it was never started and no exit will follow. Other errors
    // are about messages to a process that is ending; its exit follows.
    if (this.#process.pid !== undefined) return
    this.#cause ??= error
    this.#end('could not be started')
  }

  #onExit(code: number | null, signal: NodeJS.Signals | null): void {
    const { pid } = this.#process
    if (pid !== undefined) {
      signalGroup(pid, 'SIGKILL')
      releaseGroup(pid)
    }
    const how = describeExit(code, signal)
    // Its last words may still be in the channel: the result, or why it crashed.
    if (!this.#process.connected) {
      this.#end(how)
      return
    }
    const timer = setTimeout(() => this.#process.disconnect(), END_MS)
    this.#process.once('disconnect', () => {
      clearTimeout(timer)
      this.#end(how)
    })
  }

  #end(how: string): void {
    const wasStarting = this.#state === 'starting'
    this.#state = 'gone'
    this.ending = how
    clearTimeout(this.#startTimeout)
    clearTimeout(this.#killTimer)
    this.#workdirPipe()?.destroy()
    if (wasStarting) {
      const cause = this.#cause ?? new Error(`it ${how}`)
      this.#failStart(new BrokenWorker(`a pool process did not start: ${messageOf(cause)}`, cause))
    }
    this.#run?.fail(this.#cause ?? failed(`the process running ${this.#run.attempt.job.task} ${how}`))
    this.#run = undefined
    this.#becomeGone()
  }

  #crash(error: unknown): SluiceError {
    const who =
      this.#run === undefined ? 'a pool process' : `the process running ${this.#run.attempt.job.task}`
    return failed(`${who} crashed on an uncaught error: ${messageOf(error)}`, error)
  }

  #answerWorkdir(answer: WorkdirAnswer): void {
    this.#workdirPipe()?.write(`${JSON.stringify(answer)}\n`)
  }

  #workdirPipe(): Writable | undefined {
    return (this.#process.stdio?.[WORKDIR_FD] ?? undefined) as Writable | undefined
  }

  #send(message: ToChild): void {
    // A closed channel is reported to the callback; `exit` or `error` tells the rest.
    if (this.#process.connected) this.#process.send(message, () => {})
  }
}

/** The flags this process was started with, without those that make no sense twice. */
function inheritedFlags(): string[] {
  const flags: string[] = []
  for (let at = 0; at < process.execArgv.length; at++) {
    const flag = process.execArgv[at]!
    // `node -e CODE` would run the code instead of the entry.
    if (flag === '-e' || flag === '--eval' || flag === '-p' || flag === '--print') at += 1
    else if (!flag.startsWith('--inspect') && !flag.startsWith('--eval=')) flags.push(flag)
  }
  return flags
}

function describeExit(code: number | null, signal: NodeJS.Signals | null): string {
  if (signal === null) return `exited with code ${code}`
  if (signal === 'SIGKILL')
    return 'was killed by SIGKILL; unless somebody did this, the system ran out of memory'
  if (signal === 'SIGABRT') return 'was killed by SIGABRT; Node does this when its heap is full'
  return `was killed by ${signal}`
}

function failed(message: string, cause?: unknown): SluiceError {
  return new SluiceError('ATTEMPT_FAILED', message, { cause })
}
