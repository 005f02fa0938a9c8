import pg from 'pg'
import { discardClient, endClient } from './end-client.ts'
import { queryWithin } from './query.ts'

/** What a hint is about. It never carries anything that matters: polling finds the same, later. */
export type HintTopic =
  | 'ready'
  | 'one'
  | 'slots'
  | 'lane'
  | 'done'
  | 'cancel'
  | 'classes'
  | 'workers'
  | 'wake'

const RECONNECT_MS = 1000
const PING_MS = 5000

/**
 * Hears the hints of other processes on one connection of its own.
 *
 * Modes: `closed` (start) -> `open` by `start()` -> `closed` by `stop()`, for
 * good. While open it reconnects for as long as it takes, and asks the server
 * for a sign of life now and then, because a connection that died without a
 * word looks just like a quiet one. Losing hints costs time, nothing else.
 */
export class Listener {
  readonly #url: string
  readonly #subscribers = new Set<(topic: HintTopic) => void>()
  #client: pg.Client | undefined
  #timer: NodeJS.Timeout | undefined
  #open = false
  #hears = false

  constructor(url: string) {
    this.#url = url
  }

  /** Connects in the background; may be called again without effect. */
  start(): void {
    if (this.#open) return
    this.#open = true
    void this.#connect()
  }

  async stop(): Promise<void> {
    this.#open = false
    clearTimeout(this.#timer)
    const client = this.#client
    this.#client = undefined
    if (client !== undefined) await endClient(client)
  }

  /**
   * False while there is no connection, and behind a pooler: in transaction mode that accepts LISTEN and delivers nothing.
   * Whoever relies on hints looks by itself then.
   */
  get hears(): boolean {
    return this.#hears
  }

  subscribe(listener: (topic: HintTopic) => void): () => void {
    this.#subscribers.add(listener)
    return () => this.#subscribers.delete(listener)
  }

  async #connect(): Promise<void> {
    const client = new pg.Client({
      connectionString: this.#url,
      application_name: 'sluice-listen',
      connectionTimeoutMillis: PING_MS,
      keepAlive: true,
    })
    client.on('error', () => this.#lose(client))
    client.on('end', () => this.#lose(client))
    client.on('notification', (message) => {
      for (const subscriber of this.#subscribers) subscriber(message.payload as HintTopic)
    })
    this.#client = client
    try {
      await client.connect()
      await within(client, 'listen sluice')
      const rows = await within<{ pid: number }>(client, 'select pg_backend_pid() as pid')
      if (this.#client === client) {
        // A pooler makes up the number that it gives to its clients.
        this.#hears = rows[0]?.pid === (client as unknown as { processID: number }).processID
        this.#later(client)
      }
      // What was said while nobody listened is unknown: everything may have changed.
      for (const subscriber of this.#subscribers) {
        subscriber('ready')
        subscriber('wake')
      }
    } catch {
      this.#lose(client)
    }
  }

  #later(client: pg.Client): void {
    this.#timer = setTimeout(() => {
      within(client, 'select 1').then(
        () => this.#client === client && this.#later(client),
        () => this.#lose(client),
      )
    }, PING_MS)
    this.#timer.unref()
  }

  #lose(client: pg.Client): void {
    if (this.#client !== client) return
    this.#client = undefined
    this.#hears = false
    clearTimeout(this.#timer)
    void discardClient(client)
    if (!this.#open) return
    this.#timer = setTimeout(() => void this.#connect(), RECONNECT_MS)
    this.#timer.unref()
  }
}

/** A statement that fails when the other side stays silent. */
function within<R>(client: pg.Client, text: string): Promise<R[]> {
  return queryWithin<R>(client, { text }, [], PING_MS)
}
