import type { ServerResponse } from 'node:http'
import type { EventSink, StreamedEvent } from '../../engine/streams/job-feed.ts'

/**
 * Server-sent events to one reader.
 *
 * What it has not taken is kept by its connection, up to what the connection holds: `ready` is false from then on, and
 * whoever sends has to wait for `onReady`.
 */
export class EventStream implements EventSink {
  readonly #raw: ServerResponse
  #sentAt = performance.now()
  #fullSince: number | undefined
  #corked = false
  #over = false

  /**
   * @param onReady It has taken what it was sent.
   * @param onOver The connection is closed, by whichever side.
   */
  constructor(raw: ServerResponse, onReady: () => void, onOver: () => void) {
    this.#raw = raw
    raw.on('error', () => raw.destroy())
    raw.on('drain', () => {
      this.#fullSince = undefined
      onReady()
    })
    raw.on('close', () => {
      this.#over = true
      onOver()
    })
    raw.writeHead(200, {
      'content-type': 'text/event-stream; charset=utf-8',
      'cache-control': 'no-store, no-transform',
      // Of nginx, which would keep events until it has a buffer full of them.
      'x-accel-buffering': 'no',
    })
    raw.flushHeaders()
  }

  get ready(): boolean {
    return !this.#over && this.#fullSince === undefined
  }

  /** Since when it has taken nothing, while there is something to take. */
  get fullForMs(): number {
    return this.#fullSince === undefined ? 0 : performance.now() - this.#fullSince
  }

  get silentForMs(): number {
    return performance.now() - this.#sentAt
  }

  send({ event, id, data }: StreamedEvent): void {
    // JSON has no line breaks of its own, and neither have our ids.
    this.#write(`event: ${event}\nid: ${id}\ndata: ${data}\n\n`)
  }

  /** Something that is no event, so that nobody takes the connection for dead. */
  heartbeat(): void {
    if (this.ready) this.#write(':\n\n')
  }

  /** Tells why it ends, where that is not the end of what it tells of. No id: the reader goes on from where it was. */
  deny(code: string): void {
    if (this.#over) return
    this.#write(`event: denied\ndata: ${JSON.stringify({ code })}\n\n`)
    this.end()
  }

  end(): void {
    if (!this.#over) this.#raw.end()
  }

  /** Closes without a word: for readers that take nothing. */
  cut(): void {
    this.#raw.destroy()
  }

  /** All that is sent in one turn travels together. */
  #write(text: string): void {
    if (this.#over || this.#raw.writableEnded) return
    if (!this.#corked) {
      this.#corked = true
      this.#raw.cork()
      process.nextTick(() => {
        this.#corked = false
        this.#raw.uncork()
      })
    }
    this.#sentAt = performance.now()
    if (!this.#raw.write(text)) this.#fullSince ??= performance.now()
  }
}
