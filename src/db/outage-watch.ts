import pg from 'pg'
import type { Database } from './database.ts'
import { endClient } from './end-client.ts'
import { sqlState } from './sqlstate.ts'

const LOOK_MS = 250
/** A statement that has been under way for longer may be lost. */
const DOUBTFUL_MS = 1000
/** For a new connection: one whose first packet got lost is begun anew, not left to TCP. */
const CONNECT_MS = 1000

/**
 * Notices that the database was out of reach and is back, and fails what was sent before: TCP repeats what got lost after a
 * time about as long as the outage was.
 *
 * While statements take long it tries whether a new connection can be made. Where one could not, and then could, the
 * connections from before are given up. A database that is only slow, or a statement that waits for a lock, loses nothing.
 */
export class OutageWatch {
  readonly #url: string
  readonly #databases: readonly Database[]
  readonly #timer: NodeJS.Timeout
  #trying = false
  #away = false

  /** @param databases Those whose callers find out what became of a statement that failed, or may send it again. */
  constructor(url: string, databases: readonly Database[]) {
    this.#url = url
    this.#databases = databases
    this.#timer = setInterval(() => void this.#look(), LOOK_MS)
    this.#timer.unref()
  }

  close(): void {
    clearInterval(this.#timer)
  }

  async #look(): Promise<void> {
    const doubtful = this.#databases.some(({ longestMs }) => longestMs > DOUBTFUL_MS)
    if (this.#trying || !(this.#away || doubtful)) return
    this.#trying = true
    const begunAt = performance.now()
    const there = await answers(this.#url)
    if (there && this.#away) {
      const ms = performance.now() - begunAt
      for (const database of this.#databases) database.giveUp(ms)
    }
    this.#away = !there
    this.#trying = false
  }
}

/** Whether somebody answers there, be it with a refusal. */
async function answers(url: string): Promise<boolean> {
  const client = new pg.Client({
    connectionString: url,
    application_name: 'sluice-watch',
    connectionTimeoutMillis: CONNECT_MS,
  })
  client.on('error', () => {})
  try {
    await client.connect()
    return true
  } catch (error) {
    return sqlState(error) !== undefined
  } finally {
    await endClient(client)
  }
}
