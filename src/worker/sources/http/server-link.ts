import http from 'node:http'
import https from 'node:https'
import { ERROR_STATUS, type ErrorCode, messageOf, SluiceError } from '../../../errors.ts'

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
  readonly #base: URL
  readonly #authorization: string
  readonly #request: typeof http.request
  readonly #agent: http.Agent

  /** @throws {SluiceError} `INVALID_ARGUMENT` when the address or the key cannot be one. */
  constructor({ server, key }: ServerAddress) {
    this.#base = new URL(`${checkServer(server)}/api/v1`)
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

  /** Closes connections that nobody uses. */
  close(): void {
    this.#agent.destroy()
  }

  #exchange(path: string, body: string, options: PostOptions): Promise<{ status: number; text: string }> {
    const { timeoutMs, signal } = options
    return new Promise((resolve, reject) => {
      const fail = (why: string) =>
        reject(
          new SluiceError('SERVER_UNAVAILABLE', `the server at ${this.#base.href} cannot be reached: ${why}`),
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
      sent.end(body)
    })
  }

  #parse<T>(text: string): T {
    try {
      return JSON.parse(text) as T
    } catch {
      throw new SluiceError(
        'SERVER_UNAVAILABLE',
        `what answers at ${this.#base.href} does not speak Sluice's protocol: look at the address`,
      )
    }
  }

  #refusal(status: number, text: string): SluiceError {
    const problem = problemOf(text)
    if (problem === undefined || status >= 500) {
      const detail = problem?.detail ?? `status ${status}`
      return new SluiceError(
        'SERVER_UNAVAILABLE',
        `the server at ${this.#base.href} cannot do it now: ${detail}`,
      )
    }
    return new SluiceError(problem.code, problem.detail)
  }
}

/** The address of a server without a slash at its end. @throws {SluiceError} `INVALID_ARGUMENT` */
export function checkServer(server: string): string {
  let url: URL | undefined
  try {
    url = new URL(server)
  } catch {
    // Told below.
  }
  if (url === undefined || !/^https?:$/.test(url.protocol) || url.search !== '' || url.hash !== '')
    throw new SluiceError('INVALID_ARGUMENT', 'server: give an address such as https://sluice.example.com')
  // Not repeated in the message: it is a secret.
  if (url.username !== '' || url.password !== '')
    throw new SluiceError('INVALID_ARGUMENT', 'server: leave user and password out of the address; use a key')
  return url.href.replace(/\/+$/, '')
}

/** @throws {SluiceError} `INVALID_ARGUMENT`, which does not repeat the key. */
export function checkServerKey(key: string): string {
  if (typeof key === 'string' && /^[\x21-\x7e]{1,200}$/.test(key)) return key
  throw new SluiceError('INVALID_ARGUMENT', 'key: give an API key, slk_ and 43 characters')
}

function problemOf(text: string): { readonly code: ErrorCode; readonly detail: string } | undefined {
  try {
    const { code, detail } = JSON.parse(text) as { code?: unknown; detail?: unknown }
    if (typeof code !== 'string' || !Object.hasOwn(ERROR_STATUS, code)) return undefined
    return { code: code as ErrorCode, detail: String(detail) }
  } catch {
    return undefined
  }
}

function reasonOf(error: unknown): string {
  const code = error instanceof Error && 'code' in error ? String(error.code) : undefined
  return code ?? messageOf(error)
}
