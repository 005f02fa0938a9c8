import { createHash } from 'node:crypto'
import type { Queryable } from '../db/database.ts'
import type { Listener } from '../db/listener.ts'
import { messageOf } from '../errors.ts'
import type { EventSink } from './job-feed.ts'
import { type JobCriteria, type JobPage, readPage } from './job-list.ts'
import type { Log } from './log.ts'
import { type Now, readNow } from './now.ts'

/** Between two looks at the system, however much happens. */
const SHORTEST_MS = 250
/** And while nothing does. */
const LONGEST_MS = 1000
/** Between two looks at one list. */
const LIST_MS = 1000
/** Looks take at most a tenth of one connection's time. */
const SHARE = 10
/** Without a change it is told again after so long: that its time moves on shows that it is not stale. */
const BEAT_MS = 5000
const AFTER_FAILURE_MS = 1000

/** Which jobs a reader is shown: the first page of a list. */
export interface LiveList {
  /** Readers with the same one are shown the same. */
  readonly key: string
  readonly criteria: JobCriteria
  readonly limit: number
}

export interface LiveOptions {
  readonly now: boolean
  readonly list: LiveList | undefined
  /** The id of the last event it has heard, of any server; empty: none. */
  readonly lastId: string
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
 * All of them share one look: at most four a second, fewer when a look is expensive or nothing happens, none while nobody
 * reads. What is told is always the whole of it, so a reader that was slow or away misses nothing but what is past. Ids are
 * hashes of what was told: another server goes on from them.
 */
export class LiveFeed {
  readonly #db: Queryable
  readonly #listener: Listener
  readonly #log: Log
  readonly #toJson: { now(now: Now): unknown; page(page: JobPage): unknown }
  readonly #readers = new Set<Reader>()
  readonly #lists = new Map<string, { seen: Seen; at: number; costMs: number }>()
  #timer: NodeJS.Timeout | undefined
  #dueAt = Number.POSITIVE_INFINITY
  #looking: Promise<void> | undefined
  #seen: Seen | undefined
  #pauseMs = SHORTEST_MS
  #unsubscribe: (() => void) | undefined
  #closed = false

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
    this.#readers.add(reader)
    this.#unsubscribe ??= this.#listener.subscribe(() => {
      this.#pauseMs = SHORTEST_MS
    })
    this.#listener.start()
    this.nudge()
    return { leave: () => this.#leave(reader) }
  }

  /** Somebody is new, or ready again: what is known is told at once, the next look is soon. */
  nudge(): void {
    if (this.#looking !== undefined || this.#closed || this.#readers.size === 0) return
    this.#pauseMs = SHORTEST_MS
    this.#lookIn(0)
  }

  /** Ends every stream; readers go on at another server. */
  async close(): Promise<void> {
    this.#closed = true
    clearTimeout(this.#timer)
    this.#unsubscribe?.()
    for (const { sink } of this.#readers) sink.end()
    this.#readers.clear()
    await this.#looking
  }

  #leave(reader: Reader): void {
    this.#readers.delete(reader)
    if (this.#readers.size > 0) return
    clearTimeout(this.#timer)
    this.#dueAt = Number.POSITIVE_INFINITY
    this.#lists.clear()
    this.#seen = undefined
    this.#unsubscribe?.()
    this.#unsubscribe = undefined
  }

  #lookIn(ms: number): void {
    if (this.#closed || this.#readers.size === 0) return
    const dueAt = performance.now() + ms
    if (dueAt >= this.#dueAt) return
    this.#dueAt = dueAt
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => this.#start(), ms)
  }

  #start(): void {
    this.#dueAt = Number.POSITIVE_INFINITY
    this.#looking = this.#look()
      .catch((error) => {
        this.#log.warn({ error: messageOf(error) }, 'the live view could not be read; trying again')
        return AFTER_FAILURE_MS
      })
      .then((pauseMs) => {
        this.#looking = undefined
        this.#lookIn(pauseMs)
      })
  }

  /** Answers in how many milliseconds to look again. */
  async #look(): Promise<number> {
    const startedAt = performance.now()
    const readers = [...this.#readers]
    const before = this.#seen?.hash
    if (readers.some(({ options }) => options.now)) await this.#seeNow()
    const lists = new Map(readers.flatMap(({ options: { list } }) => (list ? [[list.key, list]] : [])))
    for (const key of this.#lists.keys()) if (!lists.has(key)) this.#lists.delete(key)
    for (const list of lists.values()) await this.#seeList(list)
    for (const reader of this.#readers) this.#tell(reader)
    const changed = this.#seen?.hash !== before
    this.#pauseMs = changed ? SHORTEST_MS : Math.min(LONGEST_MS, this.#pauseMs * 1.5)
    return Math.max(this.#pauseMs, SHARE * (performance.now() - startedAt))
  }

  async #seeNow(): Promise<void> {
    const now = await readNow(this.#db)
    const data = JSON.stringify(this.#toJson.now(now))
    // What only time changes is no change.
    const lanes = now.lanes.map(({ waitedMs: _, ...lane }) => lane)
    const findings = now.findings.map(({ text: _, ...finding }) => finding)
    this.#seen = { data, hash: hashOf(JSON.stringify({ ...now, at: 0, lanes, findings })) }
  }

  async #seeList({ key, criteria, limit }: LiveList): Promise<void> {
    const known = this.#lists.get(key)
    const startedAt = performance.now()
    if (known !== undefined && startedAt - known.at < Math.max(LIST_MS, SHARE * known.costMs)) return
    const data = JSON.stringify(this.#toJson.page(await readPage(this.#db, criteria, undefined, limit)))
    const seen = { data, hash: hashOf(data) }
    this.#lists.set(key, { seen, at: startedAt, costMs: performance.now() - startedAt })
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
    const list = options.list === undefined ? undefined : this.#lists.get(options.list.key)?.seen
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
