import http from 'node:http'
import https from 'node:https'
import { readProblem } from '../../../api/read-problem.ts'
import { checkServer, checkServerKey } from '../../../api/server-address.ts'
import { isErrorCode, messageOf, SluiceError } from '../../../errors.ts'

/** Where a server is, and what opens it. Passed to the heartbeat's thread; never logged. */
export interface ServerAddress {
  readonly server: string
  readonly key: string
}

export interface PostOptions {
  readonly timeoutMs: number
  readonly signal?: AbortSignal
}

/**
 * Speaks to a server of Sluice, over connections that are kept.
 *
 * With `node:http`: workers took less processor time with it than with `fetch` (decision 17). The key is in one header and
 * nowhere else: not in addresses, messages or causes of errors.
 */
export class ServerLink {
  /** As its user wrote it, for messages. */
  readonly #server: string
  readonly #base: URL
  readonly #authorization: string
  readonly #request: typeof http.request
  readonly #agent: http.Agent
  /** Requests under way, with when they were sent. */
  readonly #underWay = new Map<http.ClientRequest, number>()

  /** @throws {SluiceError} `INVALID_ARGUMENT` when the address or the key cannot be one. */
  constructor({ server, key }: ServerAddress) {
    this.#server = checkServer(server)
    this.#base = new URL(`${this.#server}/api/v1`)
    this.#authorization = `Bearer ${checkServerKey(key)}`
    const secure = this.#base.protocol === 'https:'
    this.#request = secure ? https.request : http.request
    this.#agent = secure ? new https.Agent({ keepAlive: true }) : new http.Agent({ keepAlive: true })
  }

  /**
   * Sends JSON and gives the JSON of the answer.
   *
   * @throws {SluiceError} as the server says; `SERVER_UNAVAILABLE` when nobody knows whether it was done.
   */
  async post<T>(path: string, body: unknown, options: PostOptions): Promise<T> {
    const { status, text } = await this.#exchange(path, JSON.stringify(body) ?? '', options)
    if (status >= 200 && status < 300) return this.#parse<T>(text)
    throw this.#refusal(status, text)
  }

  /**
   * The network was away for a while. Connections from before may be dead without a word: none of them is used again, and
   * requests older than `ms` fail now and not after their whole time limit.
   */
  renew(ms: number): void {
    const now = performance.now()
    for (const sockets of Object.values(this.#agent.freeSockets))
      for (const socket of sockets ?? []) socket.destroy()
    for (const [sent, sentAt] of this.#underWay)
      if (now - sentAt > ms) sent.destroy(new Error('the network was unavailable meanwhile'))
  }

  /** Closes connections that nobody uses. */
  close(): void {
    this.#agent.destroy()
  }

  #exchange(path: string, body: string, options: PostOptions): Promise<{ status: number; text: string }> {
    const { timeoutMs, signal } = options
    return new Promise((resolve, reject) => {
      const fail = (why: string) =>
        reject(
          new SluiceError('SERVER_UNAVAILABLE', `the server at ${this.#server} cannot be reached: ${why}`),
        )
      const sent = this.#request(
        this.#base,
        {
          method: 'POST',
          path: this.#base.pathname + path,
          agent: this.#agent,
          headers: {
            authorization: this.#authorization,
            'content-type': 'application/json',
            'content-length': Buffer.byteLength(body),
          },
          ...(signal !== undefined && { signal }),
        },
        (response) => {
          const chunks: Buffer[] = []
          response.on('data', (chunk: Buffer) => chunks.push(chunk))
          response.on('error', (error) => fail(reasonOf(error)))
          response.on('end', () => {
            clearTimeout(timer)
            resolve({ status: response.statusCode ?? 0, text: Buffer.concat(chunks).toString('utf8') })
          })
        },
      )
      const timer = setTimeout(() => {
        fail(`no answer within ${timeoutMs} ms`)
        sent.destroy()
      }, timeoutMs)
      sent.on('error', (error) => {
        clearTimeout(timer)
        fail(reasonOf(error))
      })
      sent.on('close', () => this.#underWay.delete(sent))
      this.#underWay.set(sent, performance.now())
      sent.end(body)
    })
  }

  #parse<T>(text: string): T {
    try {
      return JSON.parse(text) as T
    } catch {
      throw new SluiceError(
        'SERVER_UNAVAILABLE',
        `the program at ${this.#server} does not speak Sluice's protocol: check the address`,
      )
    }
  }

  #refusal(status: number, text: string): SluiceError {
    const problem = readProblem(text)
    // What its key has too much of under way is done later: nothing was done, as by a server that is away.
    const isBusy = problem?.code === 'TOO_MANY_REQUESTS'
    if (problem === undefined || !isErrorCode(problem.code) || status >= 500 || isBusy) {
      const retryAfter = isBusy ? problem?.retryAfter : undefined
      const detail = problem?.detail ?? `status ${status}`
      return new SluiceError(
        'SERVER_UNAVAILABLE',
        `the server at ${this.#server} cannot process the request now: ${detail}`,
        typeof retryAfter === 'number' ? { details: { retryAfter } } : {},
      )
    }
    return new SluiceError(problem.code, problem.detail)
  }
}

function reasonOf(error: unknown): string {
  const code = error instanceof Error && 'code' in error ? String(error.code) : undefined
  return code ?? messageOf(error)
}
