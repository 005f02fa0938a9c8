import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'

/**
 * What happens to one statement.
 *
 * `before`: the server never hears of it. `after`: it is carried out and committed, and the answer is lost. Then the
 * client sees a reset connection, or nothing ever again, or an error with that SQLSTATE. A state that ends sessions
 * also ends this one.
 */
export interface Fault {
  readonly when: 'before' | 'after'
  readonly how: 'reset' | 'silence' | string
}

export interface FaultProxy {
  readonly url: string
  close(): Promise<void>
}

/** After these the server closes the connection. */
const FATAL = new Set(['57P01', '57P02', '57P03', '53300'])

/**
 * A proxy in front of PostgreSQL that understands where a statement begins and its answer ends.
 *
 * @param decide Asked once for each statement that reaches the proxy, with its name, or its text where it has none.
 */
export async function startFaultProxy(
  targetUrl: string,
  decide: (statement: { readonly name: string; readonly text: string }) => Fault | undefined,
): Promise<FaultProxy> {
  const address = new URL(targetUrl)
  const host = address.searchParams.get('host') ?? address.hostname
  const port = Number(address.searchParams.get('port') ?? (address.port || 5432))
  const target = host.startsWith('/') ? { path: `${host}/.s.PGSQL.${port}` } : { host, port }
  const sessions = new Set<Session>()
  const server = createServer({ noDelay: true }, (client) => {
    const session = new Session(client, connect(target), decide, () => sessions.delete(session))
    sessions.add(session)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  address.searchParams.set('host', '127.0.0.1')
  address.searchParams.set('port', String((server.address() as AddressInfo).port))
  return {
    url: address.href,
    async close() {
      const closed = once(server, 'close')
      server.close()
      for (const session of sessions) session.end()
      await closed
    },
  }
}

/** One client. Statements come one at a time: the driver waits for an answer before it sends the next. */
class Session {
  readonly #client: Socket
  readonly #server: Socket
  readonly #decide: (statement: { readonly name: string; readonly text: string }) => Fault | undefined
  readonly #gone: () => void
  readonly #requests = new Messages(true)
  readonly #answers = new Messages(false)
  /** Messages of the statement that is being said. */
  #said: Buffer[] = []
  #statement = { name: '', text: '' }
  /** Set while an answer is being swallowed. */
  #losing: Fault | undefined

  constructor(
    client: Socket,
    server: Socket,
    decide: (statement: { readonly name: string; readonly text: string }) => Fault | undefined,
    gone: () => void,
  ) {
    this.#client = client
    this.#server = server
    this.#decide = decide
    this.#gone = gone
    for (const [one, other] of [
      [client, server],
      [server, client],
    ] as const) {
      one.setNoDelay(true)
      one.on('error', () => {})
      one.on('close', () => {
        other.destroy()
        gone()
      })
    }
    client.on('data', (chunk) => {
      for (const message of this.#requests.read(chunk)) this.#request(message)
    })
    server.on('data', (chunk) => {
      for (const message of this.#answers.read(chunk)) this.#answer(message)
    })
  }

  end(): void {
    this.#client.destroy()
    this.#server.destroy()
    this.#gone()
  }

  #request(message: Buffer): void {
    const kind = String.fromCharCode(message[0]!)
    if (kind === 'P') {
      const [name, text] = texts(message, 2)
      this.#statement = { name: name!, text: text! }
    } else if (kind === 'B' && this.#statement.name === '') {
      this.#statement = { name: texts(message, 2)[1]!, text: this.#statement.text }
    } else if (kind === 'Q') this.#statement = { name: '', text: texts(message, 1)[0]! }
    this.#said.push(message)
    // A startup packet begins with a zero byte; what is neither it nor part of a statement passes at once.
    const inStatement = 'PBDEC'.includes(kind) && message[0] !== 0
    if (inStatement) return
    if (kind === 'S' || kind === 'Q') this.#send()
    else this.#pass()
  }

  #send(): void {
    const fault = this.#decide(this.#statement)
    this.#statement = { name: '', text: '' }
    if (fault === undefined) {
      this.#pass()
      return
    }
    if (fault.when === 'after') {
      this.#losing = fault
      this.#pass()
      return
    }
    this.#said = []
    this.#break(fault)
  }

  #pass(): void {
    for (const message of this.#said) this.#server.write(message)
    this.#said = []
  }

  #answer(message: Buffer): void {
    if (this.#losing === undefined) {
      this.#client.write(message)
      return
    }
    if (message[0] !== 'Z'.charCodeAt(0)) return
    const fault = this.#losing
    this.#losing = undefined
    this.#break(fault)
  }

  #break({ how }: Fault): void {
    if (how === 'silence') return
    if (how === 'reset') {
      this.#client.resetAndDestroy()
      this.#server.destroy()
      return
    }
    this.#client.write(errorResponse(how))
    if (FATAL.has(how)) this.#client.end(() => this.#server.destroy())
    else this.#client.write(Buffer.from([0x5a, 0, 0, 0, 5, 0x49])) // ready for the next query, in no transaction
  }
}

/** Cuts a stream into messages: a type byte, a length that counts itself, a body. A client's first has no type. */
class Messages {
  #rest: Buffer = Buffer.alloc(0)
  #untyped: boolean

  constructor(untypedFirst: boolean) {
    this.#untyped = untypedFirst
  }

  *read(chunk: Buffer): Generator<Buffer> {
    this.#rest = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk])
    for (;;) {
      const start = this.#untyped ? 0 : 1
      if (this.#rest.length < start + 4) return
      const length = start + this.#rest.readInt32BE(start)
      if (this.#rest.length < length) return
      const message = this.#rest.subarray(0, length)
      this.#rest = this.#rest.subarray(length)
      this.#untyped = false
      yield message
    }
  }
}

/** The first zero-terminated texts of a message. */
function texts(message: Buffer, count: number): string[] {
  const found: string[] = []
  let from = 5
  for (let i = 0; i < count; i++) {
    const to = message.indexOf(0, from)
    found.push(message.toString('utf8', from, to))
    from = to + 1
  }
  return found
}

function errorResponse(state: string): Buffer {
  const severity = FATAL.has(state) ? 'FATAL' : 'ERROR'
  const fields = `S${severity}\0V${severity}\0C${state}\0Mfault ${state} on purpose\0\0`
  const message = Buffer.alloc(5 + Buffer.byteLength(fields))
  message.write('E')
  message.writeInt32BE(message.length - 1, 1)
  message.write(fields, 5)
  return message
}
