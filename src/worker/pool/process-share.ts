import { messageOf } from '../../errors.ts'
import type { PoolLog, ProcessPool } from './pool.ts'

/** After a failure it asks again this much later, whatever heartbeats say. */
const RETRY_MS = 1000

export interface ProcessShareOptions {
  readonly pool: ProcessPool
  /** Answers how many processes the pool should have, by how many it has. */
  readonly ask: (held: number) => Promise<number>
  readonly log: PoolLog
}

/**
 * Keeps a process pool at its worker's share of the cores of its host.
 *
 * It asks one question at a time. The pool grows only by what an answer grants, and it is reported smaller only when
 * processes are gone: what others may have never overlaps with what this worker has.
 */
export class ProcessShare {
  readonly #options: ProcessShareOptions
  #state: 'new' | 'running' | 'stopped' = 'new'
  #asking = false
  #again = false
  #timer: NodeJS.Timeout | undefined

  constructor(options: ProcessShareOptions) {
    this.#options = options
    options.pool.onShrunk(() => this.changed())
  }

  /** Starts the pool with the share there is now, which may be none. @throws what the pool or the other side throws. */
  async start(): Promise<void> {
    const { pool, ask } = this.#options
    await pool.start(await ask(0))
    this.#state = 'running'
    // Others may have come meanwhile.
    this.changed()
  }

  /** The share may be another now, or processes are gone. */
  changed(): void {
    this.#again = true
    if (this.#state === 'running' && !this.#asking) void this.#follow()
  }

  stop(): void {
    this.#state = 'stopped'
    clearTimeout(this.#timer)
  }

  async #follow(): Promise<void> {
    const { pool, ask, log } = this.#options
    this.#asking = true
    clearTimeout(this.#timer)
    try {
      while (this.#again && this.#state === 'running') {
        this.#again = false
        const before = pool.size
        const size = await ask(pool.held)
        if (this.#state !== 'running') return
        pool.resize(size)
        if (size !== before)
          log.info({ processes: size, before }, 'the share of the cores for the process pool has changed')
      }
    } catch (error) {
      log.warn({ error: messageOf(error) }, 'could not get the share of the cores')
      this.#timer = setTimeout(() => this.changed(), RETRY_MS)
      this.#timer.unref()
    } finally {
      this.#asking = false
    }
  }
}
