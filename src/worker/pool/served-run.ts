import { messageOf } from '../../errors.ts'
import { MAX_TIMER_MS } from '../../model/limits.ts'
import { type Attempt, StartFailure, Stop } from '../attempt.ts'
import { fromWireError, toWireError } from '../thrown.ts'
import type { OfRun, ServiceCall, ToChild, WorkdirAnswer } from './messages.ts'

/** What a run may do to the process it runs in. */
export interface ProcessLink {
  send(message: ToChild): void
  answerWorkdir(answer: WorkdirAnswer): void
  kill(cause: unknown): void
}

/**
 * One attempt while a pool process runs it: passes what the task reports to the
 * attempt's services, answers what it asks, forwards the stop, and kills the
 * process when the grace is over.
 */
export class ServedRun {
  readonly id: number
  readonly attempt: Attempt
  /** Settles exactly once: by the process's last message, or by `fail`. */
  readonly outcome: Promise<unknown>
  readonly #link: ProcessLink
  readonly #onAbort = () => this.#forwardStop()
  #resolve: (result: unknown) => void = () => {}
  #reject: (error: unknown) => void = () => {}
  #killTimer: NodeJS.Timeout | undefined
  #started = false
  #over = false

  constructor(id: number, attempt: Attempt, link: ProcessLink) {
    this.id = id
    this.attempt = attempt
    this.#link = link
    this.outcome = new Promise((resolve, reject) => {
      this.#resolve = resolve
      this.#reject = reject
    })
    attempt.signal.addEventListener('abort', this.#onAbort, { once: true })
  }

  /** Handles one message of this run. Returns the process's resident bytes when it was the last one. */
  hear(message: OfRun): number | undefined {
    const { services } = this.attempt
    switch (message.type) {
      case 'started':
        this.#started = true
        this.attempt.started?.()
        return undefined
      case 'progress':
        try {
          services.progress(message.fraction, message.message)
        } catch {
          // The attempt has been stopped, and the process was told so.
        }
        return undefined
      case 'log':
        services.log(message.level, message.message)
        return undefined
      case 'call':
        void this.#serve(message.call, message)
        return undefined
      case 'workdir':
        this.#link.answerWorkdir(makeWorkdir(this.attempt))
        return undefined
      case 'done':
        this.#end()
        this.#resolve(JSON.parse(message.result))
        return message.rss
      case 'threw':
        this.#end()
        this.#reject(this.#endingOf(fromWireError(message.error)))
        return message.rss
      default:
        return message satisfies never
    }
  }

  /** The process is gone without a last message. */
  fail(error: unknown): void {
    this.#end()
    const { aborted, reason } = this.attempt.signal
    if (aborted) this.#reject(reason)
    else if (this.#started) this.#reject(error)
    else
      this.#reject(
        new StartFailure(`the process ended before it had loaded the task: ${messageOf(error)}`, error),
      )
  }

  async #serve(call: number, request: ServiceCall): Promise<void> {
    try {
      const value = await callService(this.attempt, request)
      this.#answer({ type: 'reply', call, value })
    } catch (error) {
      this.#answer({ type: 'refuse', call, error: toWireError(error) })
    }
  }

  #answer(message: ToChild): void {
    if (!this.#over) this.#link.send(message)
  }

  #forwardStop(): void {
    const stop: unknown = this.attempt.signal.reason
    const reason = stop instanceof Stop ? stop.reason : 'cancelled'
    const message = messageOf(stop)
    this.#link.send({ type: 'stop', run: this.id, reason, message })
    const graceMs = Math.min(this.attempt.graceMs, MAX_TIMER_MS)
    this.#killTimer = setTimeout(() => this.#link.kill(stop), graceMs)
  }

  /** The very `Stop` of the attempt, when the task passed its copy on. */
  #endingOf(thrown: unknown): unknown {
    const { aborted, reason } = this.attempt.signal
    return aborted && thrown instanceof Error && thrown.name === 'Stop' ? reason : thrown
  }

  #end(): void {
    this.#over = true
    clearTimeout(this.#killTimer)
    this.attempt.signal.removeEventListener('abort', this.#onAbort)
  }
}

async function callService(attempt: Attempt, { method, name = '', value }: ServiceCall): Promise<unknown> {
  const { services } = attempt
  switch (method) {
    case 'loadStep':
      return services.loadStep(name)
    case 'saveStep':
      return services.saveStep(name, parseJson(value))
    case 'loadCheckpoint':
      return services.loadCheckpoint()
    case 'saveCheckpoint':
      return services.saveCheckpoint(parseJson(value))
    default:
      return method satisfies never
  }
}

function makeWorkdir(attempt: Attempt): WorkdirAnswer {
  try {
    return { path: attempt.workdir() }
  } catch (error) {
    return { error: messageOf(error) }
  }
}

function parseJson(text: string | undefined): unknown {
  return text === undefined ? undefined : JSON.parse(text)
}
