import { type ClientRequest, type IncomingMessage, request } from 'node:http'
import { until } from './until.ts'

export interface ReadEvent {
  readonly event: string
  readonly id: string
  // biome-ignore lint/suspicious/noExplicitAny: events are looked into by the tests
  readonly data: any
}

/** Reads server-sent events as a browser does, and keeps all of them. */
export class EventReader {
  readonly events: ReadEvent[] = []
  /** Lines that are no events: heartbeats. */
  comments = 0
  status: number | undefined
  headers: IncomingMessage['headers'] = {}
  body = ''
  closed = false
  readonly #request: ClientRequest
  #response: IncomingMessage | undefined
  #rest = ''

  constructor(url: string, path: string, key: string, lastEventId?: string) {
    const headers = {
      authorization: `Bearer ${key}`,
      ...(lastEventId !== undefined && { 'last-event-id': lastEventId }),
    }
    this.#request = request(new URL(`/api/v1${path}`, url), { headers, agent: false }, (response) => {
      this.#response = response
      this.status = response.statusCode
      this.headers = response.headers
      response.setEncoding('utf8')
      response.on('data', (text: string) => this.#take(text))
      response.on('error', () => {})
      response.on('close', () => {
        this.closed = true
      })
    })
    this.#request.on('error', () => {
      this.closed = true
    })
    this.#request.end()
  }

  get last(): ReadEvent | undefined {
    return this.events.at(-1)
  }

  /** The statuses of a job, in the order they were told. */
  statuses(id: string): string[] {
    return this.events
      .filter((each) => each.event === 'state' && each.data.id === id)
      .map((each) => each.data.status)
  }

  lines(): string[] {
    return this.events.filter((each) => each.event === 'log').map((each) => each.data.line)
  }

  async opened(): Promise<this> {
    await until(() => this.status !== undefined || this.closed, 'a stream to open')
    return this
  }

  async until(what: string, look: (reader: this) => boolean): Promise<this> {
    await until(() => look(this), what)
    return this
  }

  async ended(): Promise<this> {
    return this.until('a stream to end', () => this.closed)
  }

  /** Takes nothing more, and leaves the connection open. */
  pause(): void {
    this.#response?.pause()
  }

  resume(): void {
    this.#response?.resume()
  }

  close(): void {
    this.#request.destroy()
  }

  #take(text: string): void {
    if (!String(this.headers['content-type']).startsWith('text/event-stream')) {
      this.body += text
      return
    }
    const parts = (this.#rest + text).split('\n\n')
    this.#rest = parts.pop()!
    for (const part of parts) this.#read(part)
  }

  #read(part: string): void {
    const fields = new Map<string, string>()
    for (const line of part.split('\n')) {
      const at = line.indexOf(':')
      fields.set(line.slice(0, at), line.slice(at + 1).trimStart())
    }
    const data = fields.get('data')
    if (data === undefined) this.comments++
    else
      this.events.push({
        event: fields.get('event') ?? 'message',
        id: fields.get('id') ?? this.last?.id ?? '',
        data: JSON.parse(data),
      })
  }
}
