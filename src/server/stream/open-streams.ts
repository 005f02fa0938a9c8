import type { ServerResponse } from 'node:http'
import type { EventSink } from '../../engine/streams/job-feed.ts'
import { messageOf, SluiceError } from '../../errors.ts'
import type { ServerParts } from '../parts.ts'
import { EventStream } from './event-stream.ts'

/** A reader that takes nothing for so long is cut off; it may come back and go on. */
const SLOW_MS = 30_000
const HEARTBEAT_MS = 15_000
/** How often heartbeats are due at the earliest, slow readers are looked for, and rights are asked about again. */
const TICK_MS = 2000

export interface StreamLimits {
  /** Open at once with one key. */
  readonly perKey: number
  readonly heartbeatMs: number
  readonly slowMs: number
  readonly tickMs: number
}

export const STREAM_LIMITS: StreamLimits = {
  perKey: 100,
  heartbeatMs: HEARTBEAT_MS,
  slowMs: SLOW_MS,
  tickMs: TICK_MS,
}

/** Whether somebody may still read what they read. Asked again and again, with the same name once for all its streams. */
export interface Right {
  /** Streams with the same name have the same right. */
  readonly name: string
  /** The id of the key it comes from. */
  readonly keyId: string
  /** The code of the refusal, or `undefined` when all is well. */
  refused(): Promise<string | undefined>
}

/** Whoever tells the readers. */
export interface Source {
  /** A reader has taken what it was sent. */
  nudge(): void
  /** Ends every stream. */
  close(): Promise<void>
}

interface OpenStream {
  readonly stream: EventStream
  readonly right: Right
}

/** Streams of one server about the same kind of thing. */
export class OpenStreams {
  readonly #source: Source
  readonly #log: ServerParts['log']
  readonly #limits: StreamLimits
  readonly #open = new Set<OpenStream>()
  #timer: NodeJS.Timeout | undefined
  #asking = false
  #closed = false

  constructor(source: Source, log: ServerParts['log'], limits: StreamLimits = STREAM_LIMITS) {
    this.#source = source
    this.#log = log
    this.#limits = limits
  }

  get size(): number {
    return this.#open.size
  }

  /**
   * Call it while a refusal can still be answered.
   *
   * @throws {SluiceError} `TOO_MANY_REQUESTS` when the key has as many streams as it may.
   */
  checkRoom(keyId: string): void {
    const { perKey } = this.#limits
    const own = [...this.#open].filter(({ right }) => right.keyId === keyId).length
    if (own < perKey) return
    throw new SluiceError(
      'TOO_MANY_REQUESTS',
      `this key has ${perKey} open streams at this server, the maximum: close one, or share a stream`,
      { details: { retryAfter: 10 } },
    )
  }

  /**
   * Tells a reader. Nothing is opened for one that has gone; while the server stops, its stream ends at once.
   *
   * @param begin Lets the source tell it.
   */
  open(raw: ServerResponse, right: Right, begin: (sink: EventSink) => { leave(): void }): void {
    // Its connection was closed while something was looked up: nobody would hear of that any more.
    if (raw.destroyed) return
    let feed: { leave(): void } | undefined
    let over = false
    const stream = new EventStream(
      raw,
      () => this.#source.nudge(),
      () => {
        over = true
        feed?.leave()
        this.#open.delete(open)
        if (this.#open.size === 0) this.#stop()
      },
    )
    const open = { stream, right }
    if (this.#closed) {
      stream.end()
      return
    }
    feed = begin(stream)
    if (over) feed.leave()
    else this.#open.add(open)
    this.#timer ??= setInterval(() => this.#tick(), this.#limits.tickMs).unref()
  }

  /** Ends all of them: the server stops. */
  async close(): Promise<void> {
    this.#closed = true
    this.#stop()
    await this.#source.close()
  }

  #stop(): void {
    clearInterval(this.#timer)
    this.#timer = undefined
  }

  #tick(): void {
    for (const { stream } of this.#open) {
      if (stream.fullForMs > this.#limits.slowMs) stream.cut()
      else if (stream.silentForMs > this.#limits.heartbeatMs - this.#limits.tickMs) stream.heartbeat()
    }
    if (this.#asking) return
    this.#asking = true
    this.#checkRights()
      .catch((error) =>
        this.#log.warn({ error: messageOf(error) }, 'could not check the permissions of open streams'),
      )
      .finally(() => {
        this.#asking = false
      })
  }

  /** While the database cannot be asked nobody is refused: there is nothing new to read then either. */
  async #checkRights(): Promise<void> {
    const rights = new Map([...this.#open].map(({ right }) => [right.name, right]))
    const refused = new Map<string, string>()
    await Promise.all(
      [...rights].map(async ([name, right]) => {
        const code = await right.refused()
        if (code !== undefined) refused.set(name, code)
      }),
    )
    for (const { stream, right } of this.#open) {
      const code = refused.get(right.name)
      if (code !== undefined) stream.deny(code)
    }
  }
}
