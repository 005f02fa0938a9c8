import { SluiceError } from '../errors.ts'

const FIRST_PAUSE_MS = 100
const LONGEST_PAUSE_MS = 5000

/** Waits for a server that is away, stopping or too busy, longer each time, and as long as it says with `Retry-After`. */
export class Patience {
  readonly #signal: AbortSignal | undefined
  #pauseMs = FIRST_PAUSE_MS

  /** @param signal Ends the waiting with its reason. */
  constructor(signal: AbortSignal | undefined) {
    this.#signal = signal
  }

  /** The server was there. */
  renew(): void {
    this.#pauseMs = FIRST_PAUSE_MS
  }

  /** Resolves when it is time to ask again. Throws an error that asking again does not mend: a refusal of what was asked. */
  async after(error: unknown): Promise<void> {
    this.#signal?.throwIfAborted()
    if (error instanceof SluiceError && error.status < 500 && error.status !== 429) throw error
    const said = error instanceof SluiceError ? Number(error.details.retryAfter ?? 0) * 1000 : 0
    // A little less for each, so that those whom a server has left do not all come at once.
    await pause(Math.max(said, this.#pauseMs * (0.5 + Math.random() / 2)), this.#signal)
    this.#pauseMs = Math.min(LONGEST_PAUSE_MS, this.#pauseMs * 2)
  }

  /** Asks until there is an answer. */
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
