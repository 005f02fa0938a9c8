import type { Readable } from 'node:stream'
import { StringDecoder } from 'node:string_decoder'
import type { AttemptServices } from './attempt.ts'
import { saysOutOfMemory } from './models/out-of-memory.ts'

/** Longer lines are cut: one line without an end must not fill the memory. */
const MAX_LINE_BYTES = 8192
/** How much of stderr an error quotes. */
const QUOTED_LINES = 3
const QUOTED_CHARS = 500

const PROGRESS = /^::progress\s+([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)(?:\s+(.*))?$/
const NEWLINE = 0x0a

/**
 * Turns what a program prints into log lines and progress.
 *
 * stdout becomes `info`, stderr `warn`; a stdout line `::progress 0.4 text` is
 * progress and no log line. After `maxBytes` of both together one line says so
 * and the rest is read and dropped, so a talkative program is neither stored
 * nor blocked. Progress and the quoted end of stderr go on working then.
 */
export class ProgramOutput {
  readonly #services: AttemptServices
  readonly #maxBytes: number
  readonly #lastErrors: string[] = []
  /** The last line of stderr that says that a device is out of memory; what a program says after it may fill pages. */
  #scarcity: string | undefined
  #bytes = 0
  #full = false

  constructor(services: AttemptServices, maxBytes: number) {
    this.#services = services
    this.#maxBytes = maxBytes
  }

  /** Reads a stream to its end. An error of the stream counts as its end. */
  read(stream: Readable, source: 'stdout' | 'stderr'): void {
    const lines = new LineSplitter((line, bytes) => this.#take(source, line, bytes))
    stream.on('data', (chunk: Buffer) => lines.push(chunk))
    stream.on('error', () => {})
    stream.on('close', () => lines.end())
  }

  /** The last lines of stderr, shortened, for an error message. Empty when there were none. */
  lastErrors(): string {
    const last = this.#lastErrors.join('\n')
    return this.#scarcity === undefined || last.includes(this.#scarcity) ? last : `${this.#scarcity}\n${last}`
  }

  #take(source: 'stdout' | 'stderr', line: string, bytes: number): void {
    if (source === 'stdout') {
      const progress = PROGRESS.exec(line)
      if (progress !== null) {
        this.#report(Number(progress[1]), progress[2])
        return
      }
    } else if (line.trim() !== '') {
      this.#lastErrors.push(shorten(line))
      if (this.#lastErrors.length > QUOTED_LINES) this.#lastErrors.shift()
      if (saysOutOfMemory(line)) this.#scarcity = shorten(line)
    }
    this.#log(source, line, bytes)
  }

  #report(fraction: number, message: string | undefined): void {
    try {
      this.#services.progress(Math.min(1, Math.max(0, fraction)), message)
    } catch {
      // The attempt has been stopped; the program is about to hear of it.
    }
  }

  #log(source: 'stdout' | 'stderr', line: string, bytes: number): void {
    if (this.#full) return
    this.#bytes += bytes
    if (this.#bytes > this.#maxBytes) {
      this.#full = true
      this.#services.log('warn', `output after the first ${this.#maxBytes} bytes is not kept`)
      return
    }
    this.#services.log(source === 'stdout' ? 'info' : 'warn', line)
  }
}

function shorten(line: string): string {
  if (line.length <= QUOTED_CHARS) return line
  // Without half a surrogate pair at the cut, which no database stores.
  return `${line.slice(0, QUOTED_CHARS).replace(/[\uD800-\uDBFF]$/, '')}…`
}

/** Cuts a byte stream into lines of text, each bounded, whatever the bytes are. */
class LineSplitter {
  readonly #onLine: (line: string, bytes: number) => void
  #parts: Buffer[] = []
  #kept = 0
  #dropped = 0

  constructor(onLine: (line: string, bytes: number) => void) {
    this.#onLine = onLine
  }

  push(chunk: Buffer): void {
    let start = 0
    for (;;) {
      const end = chunk.indexOf(NEWLINE, start)
      if (end < 0) break
      this.#keep(chunk.subarray(start, end))
      this.#flush(1)
      start = end + 1
    }
    this.#keep(chunk.subarray(start))
  }

  end(): void {
    if (this.#kept > 0) this.#flush(0)
  }

  #keep(bytes: Buffer): void {
    const room = Math.min(bytes.length, MAX_LINE_BYTES - this.#kept)
    if (room > 0) this.#parts.push(bytes.subarray(0, room))
    this.#kept += room
    this.#dropped += bytes.length - room
  }

  #flush(newlineBytes: number): void {
    const bytes = Buffer.concat(this.#parts)
    // A decoder instead of `toString`: at a cut it leaves out the half of a
    // character. Wrong bytes become U+FFFD, and so does NUL, which PostgreSQL's
    // text cannot hold.
    const decoder = new StringDecoder('utf8')
    let line = this.#dropped > 0 ? decoder.write(bytes) : decoder.write(bytes) + decoder.end()
    line = line.replaceAll('\0', '\uFFFD')
    if (line.endsWith('\r')) line = line.slice(0, -1)
    // A progress bar rewrites its line; what a terminal would show is the last part.
    line = line.slice(line.lastIndexOf('\r') + 1)
    if (this.#dropped > 0) line += `… (${this.#dropped} more bytes)`
    const size = this.#kept + newlineBytes
    this.#parts = []
    this.#kept = 0
    this.#dropped = 0
    this.#onLine(line, size)
  }
}
