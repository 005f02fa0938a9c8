import { messageOf } from '../../errors.ts'
import { toStorableText } from '../../model/json.ts'
import { MAX_LOG_BYTES, MAX_LOG_LINE, MAX_LOG_LINES, MAX_PROGRESS_MESSAGE } from '../../model/limits.ts'
import type { LogLine, ProgressNote } from '../../model/log-line.ts'
import type { Log } from '../log.ts'

const FLUSH_MS = 200
/**
 * The most lines waiting to be stored. Beyond it, the oldest are dropped, because an outage must not exhaust the
 * memory.
 */
const MAX_WAITING = 50_000
const BATCH = 1000

/** Where lines and progress are stored: the database, or a server. */
export interface TraceStore {
  /** Returns the jobs whose lines were rejected, because their attempts ended too long ago. */
  appendLogs(lines: readonly LogLine[]): Promise<readonly string[]>
  saveProgress(notes: readonly ProgressNote[]): Promise<unknown>
}

const REFUSED = 'rejected log lines: their attempts ended more than 10 s ago'

interface Trace {
  lines: number
  bytes: number
  /** Lines and progress not stored yet. */
  waiting: number
}

/**
 * Collects log lines and progress of running jobs and stores them in batches.
 *
 * Nothing here fails a job: what cannot be stored is dropped, and the process log reports it.
 */
export class Recorder {
  readonly #store: TraceStore
  readonly #log: Log
  readonly #traces = new Map<string, Trace>()
  readonly #progress = new Map<string, ProgressNote>()
  #lines: LogLine[] = []
  #timer: NodeJS.Timeout | undefined
  #flushing: Promise<void> | undefined
  /** Lines taken in and lines done with, ever. */
  #accepted = 0
  #settled = 0
  /** Lines dropped since this was last reported. */
  #dropped = 0

  constructor(store: TraceStore, log: Log) {
    this.#store = store
    this.#log = log
  }

  log(id: string, attempt: number, level: string, text: string): void {
    const trace = this.#traceOf(id)
    if (trace.lines > MAX_LOG_LINES || trace.bytes > MAX_LOG_BYTES) return
    trace.lines++
    const storable = toStorableText(text, MAX_LOG_LINE)
    trace.bytes += Buffer.byteLength(storable)
    const full = trace.lines > MAX_LOG_LINES || trace.bytes > MAX_LOG_BYTES
    const line = full ? 'the log of this attempt is full; dropping further lines' : storable
    this.#lines.push({ id, attempt, at: new Date().toISOString(), level: full ? 'warn' : level, line })
    this.#accepted++
    if (this.#lines.length > MAX_WAITING) {
      this.#lines.shift()
      this.#settled++
      this.#dropped++
    }
    trace.waiting++
    this.#schedule()
  }

  progress(id: string, attempt: number, fraction: number, text: string | undefined): void {
    const message = text === undefined ? null : toStorableText(text, MAX_PROGRESS_MESSAGE)
    this.#progress.set(id, { id, attempt, progress: fraction, message })
    this.#traceOf(id).waiting++
    this.#schedule()
  }

  /** Resolves once everything of this job is stored or dropped. `undefined` if it left nothing. */
  finish(id: string): Promise<void> | undefined {
    const trace = this.#traces.get(id)
    if (trace === undefined) return undefined
    this.#traces.delete(id)
    return trace.waiting > 0 ? this.flush() : undefined
  }

  /** Resolves once everything before this call is stored or dropped. It does not wait for later lines. */
  async flush(): Promise<void> {
    const goal = this.#accepted
    await this.#flushing // It may have begun before the last of it came.
    do {
      this.#flushing ??= this.#flushOnce().finally(() => {
        this.#flushing = undefined
      })
      await this.#flushing
    } while (this.#settled < goal)
  }

  #traceOf(id: string): Trace {
    let trace = this.#traces.get(id)
    if (trace === undefined) {
      trace = { lines: 0, bytes: 0, waiting: 0 }
      this.#traces.set(id, trace)
    }
    return trace
  }

  #schedule(): void {
    if (this.#timer !== undefined) return
    this.#timer = setTimeout(() => {
      this.#timer = undefined
      void this.flush()
    }, FLUSH_MS)
  }

  async #flushOnce(): Promise<void> {
    if (this.#dropped > 0) {
      this.#log.warn(
        { dropped: this.#dropped, waiting: this.#lines.length },
        `dropped ${this.#dropped} log lines: more than ${MAX_WAITING} were waiting to be stored`,
      )
      this.#dropped = 0
    }
    const lines = this.#lines.splice(0, BATCH)
    const notes = [...this.#progress.values()].sort((a, b) => Number(BigInt(a.id) - BigInt(b.id)))
    this.#progress.clear()
    try {
      const refused = lines.length > 0 ? await this.#store.appendLogs(lines) : []
      if (refused.length > 0) this.#log.warn({ jobs: refused.slice(0, 20) }, REFUSED)
      if (notes.length > 0) await this.#store.saveProgress(notes)
    } catch (error) {
      this.#log.warn(
        { lines: lines.length, error: messageOf(error) },
        'dropped log lines or progress that could not be stored',
      )
    }
    this.#settled += lines.length
  }
}
