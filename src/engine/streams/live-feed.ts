import { createHash } from 'node:crypto'
import type { Queryable } from '../../db/database.ts'
import type { Listener } from '../../db/listener.ts'
import { messageOf } from '../../errors.ts'
import type { Log } from '../log.ts'
import { type JobCriteria, type JobPage, readLine, readPage } from '../views/job-list.ts'
import { type Now, readNow } from '../views/now.ts'
import type { EventSink } from './job-feed.ts'
import { ListTurns } from './list-turns.ts'
import { PollLoop } from './poll-loop.ts'

/** Between two looks at the system, however much happens. */
const SHORTEST_MS = 250
/** And while nothing does. */
const LONGEST_MS = 1000
/** Looks at the system take at most a tenth of one connection's time. */
const SHARE = 10
/** Without a change it is told again after so long: that its time moves on shows that it is not stale. */
const BEAT_MS = 5000
const AFTER_FAILURE_MS = 1000

/** Which jobs a reader is shown: the first page of a list. */
export interface LiveList {
  /** Readers with the same one are shown the same. */
  readonly key: string
  readonly criteria: JobCriteria
  /** Queued jobs in the order in which they would start; otherwise the newest first. */
  readonly order?: 'line' | undefined
  readonly limit: number
}

export interface LiveOptions {
  readonly now: boolean
  readonly list: LiveList | undefined
  /** The id of the last event it has heard, of any server; empty: none. */
  readonly lastId: string
  /** Who reads. Looks at lists are shared out among them. */
  readonly reader: string
}

interface Reader {
  readonly options: LiveOptions
  readonly sink: EventSink
  now: string
  list: string
  nowSentAt: number
}

/** What was last seen of something that readers share. */
interface Seen {
  readonly hash: string
  readonly data: string
}

/**
 * Tells any number of readers how the system stands, and how the lists stand that they look at.
 *
 * All of them share one look at the system: at most four a second, fewer when a look is expensive or nothing happens, none while
 * nobody reads. Lists are looked at one after the other beside it, in turns. Each event holds the whole state, so a reader
 * that was slow or away misses nothing but what is past. Ids are hashes of what was sent, so another server can continue from them.
 */
export class LiveFeed {
  readonly #db: Queryable
  readonly #listener: Listener
  readonly #log: Log
  readonly #toJson: { now(now: Now): unknown; page(page: JobPage): unknown }
  readonly #readers = new Set<Reader>()
  readonly #system = new PollLoop(() => this.#orLater(() => this.#lookAtSystem()))
  readonly #pages = new PollLoop(() => this.#orLater(() => this.#lookAtList()))
  readonly #turns = new ListTurns()
  #seen: Seen | undefined
  readonly #seenLists = new Map<string, Seen>()
  #pauseMs = SHORTEST_MS
  /** Not before then, however many readers come and go. */
  #lookAgainAt = 0
  #unsubscribe: (() => void) | undefined

  /** @param toJson How the wire writes what is told. */
  constructor(
    db: Queryable,
    listener: Listener,
    log: Log,
    toJson: { now(now: Now): unknown; page(page: JobPage): unknown },
  ) {
    this.#db = db
    this.#listener = listener
    this.#log = log
    this.#toJson = toJson
  }

  get size(): number {
    return this.#readers.size
  }

  /** Tells a reader, until it leaves. */
  open(options: LiveOptions, sink: EventSink): { leave(): void } {
    const [now = '', list = ''] = options.lastId.split('~')
    const reader = { options, sink, now, list, nowSentAt: performance.now() }
    // What was seen a moment ago is still what there is; nothing older is sent.
    if (this.#readers.size === 0 && performance.now() > this.#lookAgainAt) this.#seen = undefined
    this.#readers.add(reader)
    this.#tell(reader)
    this.#unsubscribe ??= this.#listener.subscribe(() => {
      this.#pauseMs = SHORTEST_MS
    })
    this.#listener.start()
    this.nudge()
    return { leave: () => this.#leave(reader) }
  }

  /** Somebody is new, or ready again: the next look is soon. */
  nudge(): void {
    if (this.#readers.size === 0) return
    this.#pauseMs = SHORTEST_MS
    this.#system.within(Math.max(0, this.#lookAgainAt - performance.now()))
    this.#pages.within(0)
  }

  /** Ends every stream; readers go on at another server. */
  async close(): Promise<void> {
    this.#unsubscribe?.()
    for (const { sink } of this.#readers) sink.end()
    this.#readers.clear()
    await Promise.all([this.#system.stop(), this.#pages.stop()])
  }

  #leave(reader: Reader): void {
    this.#readers.delete(reader)
    if (this.#readers.size > 0) return
    this.#system.pause()
    this.#pages.pause()
    this.#seenLists.clear()
    this.#unsubscribe?.()
    this.#unsubscribe = undefined
  }

  async #orLater(look: () => Promise<number | undefined>): Promise<number | undefined> {
    try {
      return await look()
    } catch (error) {
      this.#log.warn({ error: messageOf(error) }, 'could not read the live view; trying again')
      return this.#readers.size === 0 ? undefined : AFTER_FAILURE_MS
    }
  }

  async #lookAtSystem(): Promise<number | undefined> {
    if (![...this.#readers].some(({ options }) => options.now)) return undefined
    const startedAt = performance.now()
    const before = this.#seen?.hash
    const now = await readNow(this.#db)
    const data = JSON.stringify(this.#toJson.now(now))
    // What only time changes is no change.
    const lanes = now.lanes.map(({ waitedMs: _, ...lane }) => lane)
    const findings = now.findings.map(({ text: _, ...finding }) => finding)
    const hash = hashOf(JSON.stringify({ ...now, at: 0, lanes, findings }))
    this.#seen = { data, hash }
    for (const reader of this.#readers) this.#tell(reader)
    this.#pauseMs = hash === before ? Math.min(LONGEST_MS, this.#pauseMs * 1.5) : SHORTEST_MS
    const costMs = performance.now() - startedAt
    this.#lookAgainAt = startedAt + Math.max(SHORTEST_MS, SHARE * costMs)
    return Math.max(this.#pauseMs, SHARE * costMs)
  }

  /** Looks at the list whose turn it is. */
  async #lookAtList(): Promise<number | undefined> {
    const lists = new Map<string, LiveList>()
    const readersOf = new Map<string, Set<string>>()
    for (const { options } of this.#readers) {
      if (options.list === undefined) continue
      const { key } = options.list
      lists.set(key, options.list)
      const readers = readersOf.get(key) ?? new Set()
      readersOf.set(key, readers.add(options.reader))
    }
    for (const key of this.#seenLists.keys()) if (!lists.has(key)) this.#seenLists.delete(key)
    // Those who have just come, or were slow, may hear what is known already.
    for (const reader of this.#readers) this.#tell(reader)
    const startedAt = performance.now()
    this.#turns.forget(readersOf, startedAt)
    const turn = this.#turns.next(readersOf, startedAt)
    if (turn === undefined || 'inMs' in turn) return turn?.inMs
    const { key, criteria, order, limit } = lists.get(turn.key)!
    const read = order === 'line' ? readLine : readPage
    try {
      const data = JSON.stringify(this.#toJson.page(await read(this.#db, criteria, undefined, limit)))
      this.#seenLists.set(key, { data, hash: hashOf(data) })
    } finally {
      // A look in vain costs as much: its readers wait for their next turn as after any other.
      this.#turns.looked(key, readersOf.get(key)!, startedAt, performance.now() - startedAt)
    }
    for (const reader of this.#readers) if (reader.options.list?.key === key) this.#tell(reader)
    // However many lists there are, half of the connection's time is left.
    return performance.now() - startedAt
  }

  #tell(reader: Reader): void {
    const { options, sink } = reader
    if (!sink.ready) return
    const isDue = reader.now !== this.#seen?.hash || performance.now() - reader.nowSentAt > BEAT_MS
    if (options.now && this.#seen !== undefined && isDue) {
      reader.now = this.#seen.hash
      reader.nowSentAt = performance.now()
      this.#send(reader, 'now', this.#seen.data)
    }
    const list = options.list === undefined ? undefined : this.#seenLists.get(options.list.key)
    if (list === undefined || list.hash === reader.list) return
    reader.list = list.hash
    this.#send(reader, 'jobs', list.data)
  }

  #send({ sink, now, list }: Reader, event: 'now' | 'jobs', data: string): void {
    sink.send({ event, id: `${now}~${list}`, data })
  }
}

function hashOf(text: string): string {
  return createHash('sha256').update(text).digest('base64url').slice(0, 12)
}
