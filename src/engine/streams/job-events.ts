import { setTimeout as delay } from 'node:timers/promises'
import type { Queryable } from '../../db/database.ts'
import type { Listener } from '../../db/listener.ts'
import { messageOf, SluiceError } from '../../errors.ts'
import { isFinal } from '../../model/job.ts'
import { ANNOUNCEMENT_MS } from '../../model/limits.ts'
import { parseSnapshot } from '../../model/snapshot.ts'
import type { StreamPosition } from '../../model/stream-position.ts'
import { announceWaiting } from '../../store/announce-waiting.ts'
import { readLogBound } from '../../store/read-log-bound.ts'
import { type NewLogLine, readNewLogs } from '../../store/read-new-logs.ts'
import { type WatchedRow, watchJobs } from '../../store/watch-jobs.ts'
import type { Log } from '../log.ts'
import { type EventSink, JobFeed } from './job-feed.ts'
import { differ, type TreeSnapshot, toTreeSnapshot } from './tree-snapshot.ts'

/** Between looks while nothing is hinted at. Progress and lines come with no hint. */
const LOOK_MS = 500
/** Between looks however much is hinted at. */
const SHORTEST_MS = 50
/** A state is told with the look after the one that saw it, so that the lines before it come first. */
const PENDING_MS = 20
const NUDGED_MS = 10
const AFTER_FAILURE_MS = 1000
/** Writers of lines that do not end are not waited for longer: only an open transaction of a person takes so long. */
const SETTLE_MS = 2000
const SETTLE_POLL_MS = 5
/** Lines of one job a look brings; and when it catches up with what was there before, as many jobs at once. */
const LINES = 50
const LINES_BEHIND = 500
const JOBS_BEHIND = 20
const JOBS_AT_ONCE = 1000
/** Of a tree: levels that are looked at, children of a fan-out that are told apart, and jobs in all. */
const LEVELS = 40
const WIDE = 200
const MOST_JOBS = 2000

/** A job or a tree that somebody watches. */
interface Watch {
  readonly key: string
  readonly id: string
  levels: number
  readonly feeds: Set<JobFeed>
  /** As of the last two looks: the older one is told, once the lines before it have been. */
  now: TreeSnapshot | undefined
  told: TreeSnapshot | undefined
  looks: number
}

export interface FeedOptions {
  /** With everything below the job. */
  readonly tree: boolean
  readonly logs: boolean
  readonly position: StreamPosition
}

/**
 * Tells what happens to jobs, to any number of readers.
 *
 * All that is watched is looked at together: some statements a look, whatever the number of readers. A look is told as it
 * is found, so what changed twice between two looks is told once. Nothing is kept for a reader that is slow: it goes on
 * from the state of then when it is ready again, and reads the lines it missed from the database.
 *
 * No line is told before every line with a smaller id is there, and no ending before the job's last line.
 */
export class JobEvents {
  readonly #db: Queryable
  readonly #listener: Listener
  readonly #process: string
  readonly #log: Log
  readonly #watches = new Map<string, Watch>()
  #timer: NodeJS.Timeout | undefined
  #dueAt = Number.POSITIVE_INFINITY
  #lookedAt = Number.NEGATIVE_INFINITY
  #looking: Promise<void> | undefined
  #announcedAt = Number.NEGATIVE_INFINITY
  #unsubscribe: (() => void) | undefined
  #closed = false

  constructor(db: Queryable, listener: Listener, process: string, log: Log) {
    this.#db = db
    this.#listener = listener
    this.#process = process
    this.#log = log
  }

  /** Readers there are. */
  get size(): number {
    let size = 0
    for (const { feeds } of this.#watches.values()) size += feeds.size
    return size
  }

  /** Tells a reader of a job from a position on, until it leaves or the job has ended. */
  open(id: string, options: FeedOptions, sink: EventSink): { leave(): void } {
    if (this.#closed) throw new SluiceError('CLOSED', 'the server is stopping')
    const key = options.tree ? `${id}/` : id
    const watch = this.#watches.get(key) ?? {
      key,
      id,
      levels: options.tree ? LEVELS : 0,
      feeds: new Set(),
      now: undefined,
      told: undefined,
      looks: 0,
    }
    this.#watches.set(key, watch)
    const feed = new JobFeed(sink, options.logs, options.position)
    watch.feeds.add(feed)
    this.#unsubscribe ??= this.#listener.subscribe(() => this.#lookIn(SHORTEST_MS))
    this.#listener.start()
    this.#lookIn(0)
    return { leave: () => this.#leave(watch, feed) }
  }

  /** A reader has taken what it was sent. */
  nudge(): void {
    this.#lookIn(NUDGED_MS)
  }

  /** Ends every stream. Readers go on from where they were, at another server. */
  async close(): Promise<void> {
    this.#closed = true
    clearTimeout(this.#timer)
    this.#unsubscribe?.()
    for (const { feeds } of this.#watches.values()) for (const { sink } of feeds) sink.end()
    this.#watches.clear()
    await this.#looking
  }

  #leave(watch: Watch, feed: JobFeed): void {
    watch.feeds.delete(feed)
    if (watch.feeds.size === 0 && this.#watches.get(watch.key) === watch) this.#watches.delete(watch.key)
    if (this.#watches.size > 0) return
    clearTimeout(this.#timer)
    this.#dueAt = Number.POSITIVE_INFINITY
    this.#unsubscribe?.()
    this.#unsubscribe = undefined
  }

  #lookIn(ms: number): void {
    if (this.#closed || this.#watches.size === 0) return
    const dueAt = performance.now() + ms
    if (dueAt >= this.#dueAt) return
    this.#dueAt = dueAt
    if (this.#looking !== undefined) return
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => this.#start(), ms)
  }

  #start(): void {
    this.#dueAt = Number.POSITIVE_INFINITY
    this.#lookedAt = performance.now()
    this.#looking = this.#look()
      .then((soon) => this.#lookIn(soon))
      .catch((error) => {
        this.#log.warn({ error: messageOf(error) }, 'could not serve streams; trying again')
        this.#lookIn(AFTER_FAILURE_MS)
      })
      .finally(() => {
        this.#looking = undefined
        if (this.#dueAt === Number.POSITIVE_INFINITY || this.#closed) return
        const earliest = this.#lookedAt + 1
        const ms = Math.max(this.#dueAt, earliest) - performance.now()
        this.#timer = setTimeout(() => this.#start(), Math.max(0, ms))
      })
  }

  /** Answers in how many milliseconds to look again. */
  async #look(): Promise<number> {
    await this.#announce()
    const watches = [...this.#watches.values()]
    const { bound, writers } = await readLogBound(this.#db)
    await this.#see(watches)
    await this.#settle(writers)
    const behind = await this.#tellLines(watches, bound)
    let pending = false
    for (const watch of watches) {
      this.#tellStates(watch)
      pending ||= watch.looks < 2 || differ(watch.told, watch.now)
    }
    return behind ? 1 : pending ? PENDING_MS : LOOK_MS
  }

  async #announce(): Promise<void> {
    if (performance.now() - this.#announcedAt < ANNOUNCEMENT_MS / 2) return
    this.#announcedAt = performance.now()
    await announceWaiting(this.#db, this.#process, ANNOUNCEMENT_MS)
  }

  /** Reads everything watched again. */
  async #see(watches: readonly Watch[]): Promise<void> {
    const { snapshot, rows } = await watchJobs(this.#db, watches, WIDE)
    const byWatch = new Map<number, WatchedRow[]>()
    for (const row of rows) {
      const own = byWatch.get(row.watch)
      if (own === undefined) byWatch.set(row.watch, [row])
      else own.push(row)
    }
    watches.forEach((watch, at) => {
      const own = byWatch.get(at + 1) ?? []
      // Told by its root and its steps alone from now on.
      if (own.length > MOST_JOBS) watch.levels = 1
      watch.looks++
      watch.told = watch.now
      watch.now =
        snapshot === undefined || own.length === 0
          ? undefined
          : toTreeSnapshot(own.slice(0, MOST_JOBS), parseSnapshot(snapshot), watch.now)
    })
  }

  async #settle(writers: readonly string[]): Promise<void> {
    let left = writers
    for (let waited = 0; left.length > 0 && waited < SETTLE_MS; waited += SETTLE_POLL_MS) {
      await delay(SETTLE_POLL_MS)
      const { writers: there } = await readLogBound(this.#db)
      left = left.filter((writer) => there.includes(writer))
    }
  }

  /** Tells lines up to the bound. Answers whether somebody who could take more has not got all of them. */
  async #tellLines(watches: readonly Watch[], bound: number): Promise<boolean> {
    const groups = watches.flatMap((watch) => groupsOf(watch, bound))
    const level = groups.filter(({ behind }) => !behind)
    const back = groups.filter(({ behind }) => behind)
    for (const part of inParts(level, JOBS_AT_ONCE)) await this.#tellGroups(part, bound, LINES)
    for (const part of inParts(back, JOBS_BEHIND)) await this.#tellGroups(part, bound, LINES_BEHIND)
    return groups.some(({ feeds }) => feeds.some((feed) => !feed.caughtUp && feed.sink.ready))
  }

  async #tellGroups(groups: readonly Group[], bound: number, limit: number): Promise<void> {
    const requests = groups.flatMap(({ jobs, after }) => jobs.map((jobId) => ({ jobId, after })))
    const lines = requests.length === 0 ? [] : await readNewLogs(this.#db, requests, bound, limit)
    const byRequest = new Map<number, NewLogLine[]>()
    for (const line of lines) {
      const own = byRequest.get(line.request)
      if (own === undefined) byRequest.set(line.request, [line])
      else own.push(line)
    }
    let request = 1
    for (const group of groups) {
      const own = group.jobs.map(() => byRequest.get(request++) ?? [])
      tellGroup(group, own, bound, limit)
    }
  }

  #tellStates(watch: Watch): void {
    const root = (tree: TreeSnapshot | undefined) => tree?.nodes.find(({ row }) => row.id === watch.id)
    const gone = watch.looks > 1 && watch.told === undefined && watch.now === undefined
    const job = root(watch.told)
    const end = gone
      ? JSON.stringify({ id: watch.id, status: 'deleted' })
      : job !== undefined && isFinal(job.row.state)
        ? JSON.stringify({ id: watch.id, status: job.row.state, error: job.row.error })
        : undefined
    for (const feed of [...watch.feeds]) {
      if (!feed.caughtUp || !feed.sink.ready) continue
      if (watch.told !== undefined) feed.tellStates(watch.told, end)
      else if (gone) feed.tellStates({ snapshot: { min: 0n, max: 0n, running: [] }, nodes: [] }, end)
      if (feed.ended) this.#leave(watch, feed)
    }
  }
}

/** Readers of one job or tree that have been told up to the same line. */
interface Group {
  readonly jobs: readonly string[]
  readonly after: number
  readonly feeds: readonly JobFeed[]
  readonly behind: boolean
}

/** A reader more than this many lines of the whole system behind reads larger parts. */
const FAR_BEHIND = 10_000

function groupsOf(watch: Watch, bound: number): Group[] {
  const feeds = [...watch.feeds].filter((feed) => feed.sink.ready)
  for (const feed of feeds) if (!feed.withLogs) feed.caughtUp = true
  const places = new Map<number, JobFeed[]>()
  for (const feed of feeds.filter(({ withLogs }) => withLogs)) {
    const same = places.get(feed.line)
    if (same === undefined) places.set(feed.line, [feed])
    else same.push(feed)
  }
  const started = (watch.now?.nodes ?? []).filter(({ row }) => row.kind === null && row.attempt > 0)
  return [...places].map(([after, own]) => {
    const behind = bound - after > FAR_BEHIND || own.some(({ caughtUp }) => !caughtUp)
    // What had ended two looks ago has no more lines, for those who have had them all.
    const over = new Set(
      behind ? [] : watch.told?.nodes.filter(({ settled }) => settled).map(({ row }) => row.id),
    )
    const jobs = started.map(({ row }) => row.id).filter((id) => !over.has(id))
    return { jobs, after, feeds: own, behind }
  })
}

/** @param lines Of each job of the group. */
function tellGroup(
  group: Group,
  lines: readonly (readonly NewLogLine[])[],
  bound: number,
  limit: number,
): void {
  // Of a job that has more lines than were read, those of others further on have to wait.
  const cut = lines.filter((own) => own.length >= limit).map((own) => own.at(-1)!.id)
  const upTo = Math.min(bound, ...cut)
  const told = lines
    .flat()
    .filter(({ id }) => id <= upTo)
    .sort((a, b) => a.id - b.id)
  for (const feed of group.feeds) {
    feed.tellLines(told, upTo)
    feed.caughtUp = feed.line >= bound
  }
}

function* inParts(groups: readonly Group[], jobs: number): Iterable<readonly Group[]> {
  let part: Group[] = []
  let size = 0
  for (const group of groups) {
    if (size > 0 && size + group.jobs.length > jobs) {
      yield part
      part = []
      size = 0
    }
    part.push(group)
    size += group.jobs.length
  }
  if (part.length > 0) yield part
}
