import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'

/** Which way bytes flow: `requests` to the server, `answers` to the client. */
export type Direction = 'requests' | 'answers'

/** One client's way to the server. What was done to it cannot be undone, except a delay. */
export interface ProxiedConnection {
  /** From the startup packet; '' for a cancel request, or while the client has said nothing yet. */
  readonly applicationName: string
  /** False once the client has left, or `cut()` was called. A black hole leaves it open. */
  readonly open: boolean
  /** Bytes seen so far, forwarded or swallowed. */
  readonly bytes: Readonly<Record<Direction, number>>
  /** Ends both sides at once, the client sees a reset. */
  cut(): void
  /**
   * Half-open from now on: bytes vanish, and neither side hears that the other closes. With one direction given
   * only that one is lost: without `answers` the server carries out what the client will never hear of.
   */
  blackhole(direction?: Direction): void
  /** Every byte from now on arrives this much later, in order; 0 ends it. */
  delay(ms: number): void
}

export interface TcpProxy {
  /** The target's address, through the proxy. */
  readonly url: string
  /** Same, for an address of another database of the target. */
  through(targetUrl: string): string
  /** The connections that are open, oldest first. */
  connections(applicationName?: string): readonly ProxiedConnection[]
  /** Called for each new connection when its name is known and before the server hears of it. Returns its own end. */
  onConnect(callback: (connection: ProxiedConnection) => void): () => void
  /** Ends all connections, black holes included, and listens no more. */
  close(): Promise<void>
}

/** A proxy on 127.0.0.1 in front of a PostgreSQL server, which may listen on a Unix socket (`?host=/folder`). */
export async function startProxy(targetUrl: string): Promise<TcpProxy> {
  const target = addressOf(targetUrl)
  const all = new Set<Link>()
  const callbacks = new Set<(connection: ProxiedConnection) => void>()
  const server = createServer({ noDelay: true }, (client) => {
    const link = new Link(client, () => connect(target), {
      named: () => {
        for (const callback of callbacks) callback(link)
      },
      gone: () => all.delete(link),
    })
    all.add(link)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo

  const through = (url: string): string => {
    const address = new URL(url)
    address.searchParams.set('host', '127.0.0.1')
    address.searchParams.set('port', String(port))
    return address.href
  }
  return {
    url: through(targetUrl),
    through,
    connections: (name) =>
      [...all].filter((link) => link.open && (name === undefined || link.applicationName === name)),
    onConnect(callback) {
      callbacks.add(callback)
      return () => callbacks.delete(callback)
    },
    async close() {
      const closed = once(server, 'close')
      server.close()
      for (const link of all) link.cut()
      await closed
    },
  }
}

/** Where a PostgreSQL server listens, for `connect` of `node:net`. */
export function addressOf(url: string): { path: string } | { host: string; port: number } {
  const { hostname, port, searchParams } = new URL(url)
  const host = decodeURIComponent(searchParams.get('host') ?? hostname)
  const number = Number(searchParams.get('port') ?? (port || 5432))
  return host.startsWith('/') ? { path: `${host}/.s.PGSQL.${number}` } : { host, port: number }
}

class Link implements ProxiedConnection {
  applicationName = ''
  readonly bytes = { requests: 0, answers: 0 }
  readonly #client: Socket
  readonly #connect: () => Socket
  readonly #events: { named(): void; gone(): void }
  readonly #lost = new Set<Direction>()
  #server: Socket | undefined
  #head: Buffer | undefined = Buffer.alloc(0)
  #delayMs = 0
  /** The last byte or ending in each direction: the next follows it, whatever the delays. */
  readonly #turn = { requests: Promise.resolve(), answers: Promise.resolve() }

  constructor(client: Socket, connectServer: () => Socket, events: { named(): void; gone(): void }) {
    this.#client = client
    this.#connect = connectServer
    this.#events = events
    client.on('data', (chunk) => this.#fromClient(chunk))
    client.on('error', () => {})
    client.on('close', () => this.#ended('requests', this.#server))
  }

  get open(): boolean {
    return !this.#client.destroyed
  }

  cut(): void {
    this.#client.resetAndDestroy()
    this.#server?.destroy()
    this.#events.gone()
  }

  blackhole(direction?: Direction): void {
    for (const lost of direction === undefined ? (['requests', 'answers'] as const) : [direction]) {
      this.#lost.add(lost)
    }
  }

  delay(ms: number): void {
    this.#delayMs = ms
  }

  /** Holds back what the client says until its name is known: whoever watches decides before the server hears it. */
  #fromClient(chunk: Buffer): void {
    this.bytes.requests += chunk.length
    if (this.#head === undefined) {
      this.#forward('requests', this.#server, chunk)
      return
    }
    this.#head = Buffer.concat([this.#head, chunk])
    const startup = readStartup(this.#head)
    if (startup === undefined) return
    const head = this.#head
    this.#head = undefined
    this.applicationName = startup.applicationName
    this.#events.named()
    if (!this.open || this.#lost.has('requests')) return
    this.#server = this.#connect()
    this.#server.setNoDelay(true)
    this.#server.on('data', (answer) => {
      this.bytes.answers += answer.length
      this.#forward('answers', this.#client, answer)
    })
    this.#server.on('error', () => {})
    this.#server.on('close', () => this.#ended('answers', this.#client))
    this.#forward('requests', this.#server, head)
  }

  #forward(direction: Direction, to: Socket | undefined, chunk: Buffer): void {
    this.#inTurn(direction, () => to?.write(chunk))
  }

  #ended(direction: Direction, other: Socket | undefined): void {
    if (direction === 'requests' && this.#lost.size === 0) this.#events.gone()
    this.#inTurn(direction, () => other?.destroy())
  }

  #inTurn(direction: Direction, act: () => void): void {
    const due = Date.now() + this.#delayMs
    this.#turn[direction] = this.#turn[direction].then(async () => {
      const waitMs = due - Date.now()
      if (waitMs > 0) await delay(waitMs, undefined, { ref: false })
      if (!this.#lost.has(direction)) act()
    })
  }
}

const STARTUP_VERSION = 3

/** Undefined while incomplete. A request for encryption or for a cancel has no parameters. */
function readStartup(bytes: Buffer): { applicationName: string } | undefined {
  if (bytes.length < 8) return undefined
  const length = bytes.readInt32BE(0)
  if (bytes.length < length) return undefined
  if (bytes.readInt16BE(4) !== STARTUP_VERSION) return { applicationName: '' }
  const fields = bytes.subarray(8, length).toString('utf8').split('\0')
  for (let i = 0; i + 1 < fields.length; i += 2) {
    if (fields[i] === 'application_name') return { applicationName: fields[i + 1]! }
  }
  return { applicationName: '' }
}
