import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'

/** What a client asked for: everything up to the point where it waits for the answer. */
export interface ProxiedRequest {
  readonly applicationName: string
  /** The name of its prepared statement, as it is declared; '' when it has none. */
  readonly statement: string
  /** The text of its statement; '' when it names one that the server knows already. */
  readonly sql: string
  /** All its bytes, one character each: ids and JSON can be looked for. */
  readonly text: string
  /** True when it names the statement without its text, so that the same bytes can be sent twice. */
  readonly repeatable: boolean
}

/** Whether it is a cycle of a worker, the general one or a steady one. Behind a pooler statements have no names. */
export function isCycle({
  statement,
  sql = '',
}: {
  readonly statement: string
  readonly sql?: string
}): boolean {
  if (statement === '') return /\bfrom sluice\.(cycle|steady)_v1\(/.test(sql)
  return statement === 'run_cycle' || statement === 'run_steady_cycle'
}

/** The jobs that a cycle reports as completed: its first array, which in a cycle without any lists lanes. */
export function completedIn({ text }: Pick<ProxiedRequest, 'text'>): readonly string[] {
  const first = /\{([^{}]*)\}/.exec(text)?.[1] ?? ''
  const ids = first.split(',').map((id) => id.replaceAll('"', ''))
  return ids.every((id) => /^\d+$/.test(id)) ? ids : []
}

/** The values that a request binds to its last statement, in order, as text. Statements before it are settings. */
export function valuesIn({ text }: Pick<ProxiedRequest, 'text'>): readonly (string | null)[] {
  const bind = new Messages()
    .push(Buffer.from(text, 'latin1'), false)
    .findLast(({ type }) => type === BIND)?.bytes
  if (bind === undefined) return []
  // After the type and the length come the names of portal and statement, the formats of the values, and the values.
  let at = bind.indexOf(0, bind.indexOf(0, 5) + 1) + 1
  at += 2 + 2 * bind.readInt16BE(at)
  const values: (string | null)[] = Array(bind.readInt16BE(at))
  at += 2
  for (let i = 0; i < values.length; i++) {
    const length = bind.readInt32BE(at)
    at += 4
    values[i] = length < 0 ? null : bind.toString('utf8', at, at + length)
    at += Math.max(0, length)
  }
  return values
}

/** A request that has not reached the server. It stays so until somebody decides. */
export interface HeldRequest extends ProxiedRequest {
  /**
   * Sends it to the server, once more if need be, and keeps the answer back. Works when the client is dead, too.
   *
   * @returns true once the answer is complete: what was asked for has been committed, or refused. False when the
   *   server's end broke first.
   */
  deliver(): Promise<boolean>
  /** Sends it to the server if that was not done, and lets the client have the answer. */
  pass(): void
  /** Answers the client in the server's place, which does not notice. After the `last` answer both connections end. */
  answer(bytes: Buffer, last?: boolean): void
  /** Breaks the client's connection. The server does not notice. */
  cut(): void
  /** Never answers. Both connections end when the client gives up. */
  ignore(): void
  /** Ends both connections. */
  close(): void
}

export interface RequestProxy {
  /** The target's address, through the proxy. */
  readonly url: string
  /** Asked for every request: true takes charge of it. The first who does has it. */
  takeOver(take: (request: HeldRequest) => boolean): void
  /** Holds the next request that `matches`, and gives it to the caller. */
  hold(matches: (request: ProxiedRequest) => boolean): Promise<HeldRequest>
  /** Lets all requests through that `hold` still waits for; its promises stay open. */
  forgetHolds(): void
  close(): Promise<void>
}

/**
 * A proxy that knows where a request to PostgreSQL ends and where its answer does.
 *
 * That makes the moments between the two reachable: a request that was sent and
 * never arrived, one that was carried out and never answered, one that arrives
 * after its sender is dead, or twice. Where bytes alone matter, `startProxy` is enough.
 */
export async function startRequestProxy(targetUrl: string): Promise<RequestProxy> {
  const target = addressOf(targetUrl)
  const links = new Set<Link>()
  /** The first one to return true is in charge of the request. */
  const holds = new Set<(request: HeldRequest) => boolean>()
  const server = createServer({ noDelay: true }, (client) => {
    const upstream = connect(target)
    const link = new Link(client, upstream, (request) => [...holds].some((hold) => hold(request)))
    links.add(link)
    // Not when the client leaves: what is held of it may still be sent.
    upstream.once('close', () => links.delete(link))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = new URL(targetUrl)
  address.searchParams.set('host', '127.0.0.1')
  address.searchParams.set('port', String((server.address() as AddressInfo).port))
  return {
    url: address.href,
    takeOver: (take) => void holds.add(take),
    hold(matches) {
      return new Promise((resolve) => {
        const hold = (request: HeldRequest): boolean => {
          if (!matches(request)) return false
          holds.delete(hold)
          resolve(request)
          return true
        }
        holds.add(hold)
      })
    },
    forgetHolds: () => holds.clear(),
    async close() {
      const closed = once(server, 'close')
      server.close()
      for (const link of links) link.close()
      await closed
    },
  }
}

function addressOf(url: string): { path: string } | { host: string; port: number } {
  const { hostname, port, searchParams } = new URL(url)
  const host = decodeURIComponent(searchParams.get('host') ?? hostname)
  const number = Number(searchParams.get('port') ?? (port || 5432))
  return host.startsWith('/') ? { path: `${host}/.s.PGSQL.${number}` } : { host, port: number }
}

const SYNC = 'S'.charCodeAt(0)
const QUERY = 'Q'.charCodeAt(0)
const PARSE = 'P'.charCodeAt(0)
const BIND = 'B'.charCodeAt(0)
const READY = 'Z'.charCodeAt(0)
const PASSWORD = 'p'.charCodeAt(0)
const TERMINATE = 'X'.charCodeAt(0)

class Link {
  readonly #client: Socket
  readonly #server: Socket
  readonly #offer: (request: HeldRequest) => boolean
  readonly #fromClient = new Messages()
  #applicationName: string | undefined
  #request: Buffer[] = []
  /** What the client said while a request of its was held. */
  #waiting: Buffer[] | undefined
  #answer: { readonly messages: Messages; bytes: Buffer[]; done: (answered: boolean) => void } | undefined

  constructor(client: Socket, server: Socket, offer: (request: HeldRequest) => boolean) {
    this.#client = client
    this.#server = server
    this.#offer = offer
    server.setNoDelay(true)
    for (const socket of [client, server]) socket.on('error', () => {})
    client.on('data', (chunk) => this.#hear(chunk))
    client.on('close', () => {
      if (this.#waiting === undefined) server.destroy()
    })
    server.on('data', (chunk) => this.#answered(chunk))
    server.on('close', () => {
      this.#answer?.done(false)
      client.destroy()
    })
  }

  close(): void {
    this.#client.destroy()
    this.#server.destroy()
  }

  #hear(chunk: Buffer): void {
    const messages = this.#fromClient.push(chunk, this.#applicationName === undefined)
    for (const { type, bytes } of messages) {
      if (type === undefined) this.#applicationName = applicationNameIn(bytes)
      if (type === undefined || type === PASSWORD || type === TERMINATE) {
        this.#server.write(bytes)
        continue
      }
      this.#request.push(bytes)
      if (type === SYNC || type === QUERY) {
        const request = Buffer.concat(this.#request)
        this.#request = []
        if (this.#waiting !== undefined) this.#waiting.push(request)
        else if (!this.#offer(this.#hold(request))) this.#release(request)
      }
    }
  }

  #hold(request: Buffer): HeldRequest {
    this.#waiting = []
    let answer: Buffer | undefined
    return {
      applicationName: this.#applicationName ?? '',
      ...describe(request),
      deliver: async () => {
        answer = await this.#deliver(request)
        return answer !== undefined
      },
      pass: () => {
        if (answer === undefined) this.#release(request)
        else {
          this.#client.write(answer)
          this.#release()
        }
      },
      answer: (bytes, last = false) => {
        if (last) this.#client.end(bytes, () => this.#server.destroy())
        else {
          this.#client.write(bytes)
          this.#release()
        }
      },
      cut: () => {
        this.#client.resetAndDestroy()
      },
      ignore: () => {
        if (this.#client.destroyed) this.close()
        else this.#client.once('close', () => this.close())
      },
      close: () => this.close(),
    }
  }

  #release(request?: Buffer): void {
    const waiting = this.#waiting ?? []
    this.#waiting = undefined
    if (request !== undefined) this.#server.write(request)
    for (const bytes of waiting) this.#server.write(bytes)
    if (this.#client.destroyed) this.#server.destroy()
  }

  #deliver(request: Buffer): Promise<Buffer | undefined> {
    if (this.#server.destroyed) return Promise.resolve(undefined)
    return new Promise((resolve) => {
      const bytes: Buffer[] = []
      this.#answer = {
        messages: new Messages(),
        bytes,
        done: (answered) => {
          this.#answer = undefined
          resolve(answered ? Buffer.concat(bytes) : undefined)
        },
      }
      this.#server.write(request)
    })
  }

  #answered(chunk: Buffer): void {
    const answer = this.#answer
    if (answer === undefined) {
      this.#client.write(chunk)
      return
    }
    answer.bytes.push(chunk)
    if (answer.messages.push(chunk, false).some(({ type }) => type === READY)) answer.done(true)
  }
}

/** Cuts a stream into PostgreSQL's messages. */
class Messages {
  #rest: Buffer = Buffer.alloc(0)

  /** @param startup True while the first message is awaited: it has a length but no type. */
  push(chunk: Buffer, startup: boolean): { readonly type: number | undefined; readonly bytes: Buffer }[] {
    const complete: { type: number | undefined; bytes: Buffer }[] = []
    let rest = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk])
    for (let first = startup; ; first = false) {
      const typed = first ? 0 : 1
      if (rest.length < typed + 4) break
      const length = typed + rest.readInt32BE(typed)
      if (rest.length < length) break
      complete.push({ type: first ? undefined : rest[0]!, bytes: rest.subarray(0, length) })
      rest = rest.subarray(length)
    }
    this.#rest = rest
    return complete
  }
}

function describe(request: Buffer): Omit<ProxiedRequest, 'applicationName'> {
  let statement = ''
  let sql = ''
  let repeatable = true
  for (const { type, bytes } of new Messages().push(request, false)) {
    // Texts end with a zero. A parse has the statement's name and text, a bind those of portal and statement.
    const [first = '', second = ''] = bytes.subarray(5).toString('utf8').split('\0', 2)
    // The name ends in a digest of the statement's text.
    if (type === BIND) statement = second.replace(/_[0-9a-f]{12}$/, '')
    if (type === PARSE) {
      sql = second
      repeatable = false
    }
    if (type === QUERY) sql = first
  }
  return { statement, sql, text: request.toString('latin1'), repeatable }
}

function applicationNameIn(startup: Buffer): string {
  const fields = startup.subarray(8).toString('utf8').split('\0')
  for (let i = 0; i + 1 < fields.length; i += 2) {
    if (fields[i] === 'application_name') return fields[i + 1]!
  }
  return ''
}
