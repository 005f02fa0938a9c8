import { constants } from 'node:os'
import type { ExitCode } from './exit-code.ts'

/** How a command that takes time hears Ctrl-C and SIGTERM. */
export interface Stops {
  /** Fires at the first signal: end in an orderly way. */
  readonly soon: AbortSignal
  /** Fires at the second signal: end at once. */
  readonly now: AbortSignal
}

const SIGNALS = ['SIGINT', 'SIGTERM'] as const

/**
 * The signals that end a command.
 *
 * A command that does not ask for them ends at once, as a program without a handler would. One that does is told twice;
 * a third signal ends the process whatever it does. SIGHUP is left alone, so that `nohup` works.
 */
export class Interrupts {
  readonly #exit: (code: ExitCode) => void
  readonly #soon = new AbortController()
  readonly #now = new AbortController()
  #taken = false
  #code: ExitCode | undefined

  constructor(exit: (code: ExitCode) => void) {
    this.#exit = exit
  }

  /** 128 and the signal's number once one has come. */
  get code(): ExitCode | undefined {
    return this.#code
  }

  listen(): void {
    for (const signal of SIGNALS) process.on(signal, () => this.#hear(signal))
  }

  /** From now on the command itself ends when it is told to. */
  take(): Stops {
    this.#taken = true
    return { soon: this.#soon.signal, now: this.#now.signal }
  }

  #hear(signal: (typeof SIGNALS)[number]): void {
    this.#code = 128 + constants.signals[signal]
    if (!this.#taken || this.#now.signal.aborted) this.#exit(this.#code)
    else if (this.#soon.signal.aborted) this.#now.abort()
    else this.#soon.abort()
  }
}

/** Resolves when the signal fires, or at once when it has. */
export function fired(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve()
  return new Promise((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }))
}
