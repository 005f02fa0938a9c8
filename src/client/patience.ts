import { SluiceError } from '../errors.ts'

const FIRST_PAUSE_MS = 100
const LONGEST_PAUSE_MS = 5000

/**
 * Waits for a server that is unavailable, stopping or overloaded: increasingly long, and at least as long as its
 * `Retry-After`.
 */
export class Patience {
  readonly #signal: AbortSignal | undefined
  #pauseMs = FIRST_PAUSE_MS

  /** @param signal Ends the wait with its reason. */
  constructor(signal: AbortSignal | undefined) {
    this.#signal = signal
  }

  /** Records that the server responded. */
  renew(): void {
    this.#pauseMs = FIRST_PAUSE_MS
  }

  /** Resolves when it is time to retry. Throws errors that a retry cannot resolve, such as a rejected request. */
  async after(error: unknown): Promise<void> {
    this.#signal?.throwIfAborted()
    if (error instanceof SluiceError && error.status < 500 && error.status !== 429) throw error
    const said = error instanceof SluiceError ? Number(error.details.retryAfter ?? 0) * 1000 : 0
    // Randomized, so that the clients of a stopped server do not all return at once.
    await pause(Math.max(said, this.#pauseMs * (0.5 + Math.random() / 2)), this.#signal)
    this.#pauseMs = Math.min(LONGEST_PAUSE_MS, this.#pauseMs * 2)
  }

  /** Repeats a request until it gets a response. */
  async outlast<T>(ask: () => Promise<T>): Promise<T> {
    for (;;) {
      try {
        return await ask()
      } catch (error) {
        await this.after(error)
      }
    }
  }
}

function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = () => {
      clearTimeout(timer)
      reject(signal?.reason)
    }
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', stop)
      resolve()
    }, ms)
    signal?.addEventListener('abort', stop, { once: true })
  })
}
