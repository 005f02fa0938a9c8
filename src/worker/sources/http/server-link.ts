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
 * The key is in one header and nowhere else: not in addresses, messages or causes of errors.
 */
export class ServerLink {
  readonly #base: string
  readonly #authorization: string

  /** @throws {SluiceError} `INVALID_ARGUMENT` when the address or the key cannot be one. */
  constructor({ server, key }: ServerAddress) {
    this.#base = `${checkServer(server)}/api/v1`
    this.#authorization = `Bearer ${checkServerKey(key)}`
  }

  /**
   * Sends JSON and gives the JSON of the answer.
   *
   * @throws {SluiceError} as the server says; `SERVER_UNAVAILABLE` when nobody knows whether it was done.
   */
  async post<T>(path: string, body: unknown, options: PostOptions): Promise<T> {
    const timeout = AbortSignal.timeout(options.timeoutMs)
    const signal = options.signal === undefined ? timeout : AbortSignal.any([timeout, options.signal])
    let response: Response
    let text: string
    try {
      response = await fetch(`${this.#base}${path}`, {
        method: 'POST',
        headers: { authorization: this.#authorization, 'content-type': 'application/json' },
        body: JSON.stringify(body),
        // A key is not carried to wherever somebody points.
        redirect: 'error',
        signal,
      })
      text = await response.text()
    } catch (error) {
      const why = timeout.aborted ? `no answer within ${options.timeoutMs} ms` : reasonOf(error)
      throw new SluiceError('SERVER_UNAVAILABLE', `the server at ${this.#base} cannot be reached: ${why}`)
    }
    if (response.ok) return this.#parse<T>(text)
    throw this.#refusal(response.status, text)
  }

  #parse<T>(text: string): T {
    try {
      return JSON.parse(text) as T
    } catch {
      throw new SluiceError(
        'SERVER_UNAVAILABLE',
        `what answers at ${this.#base} does not speak Sluice's protocol: look at the address`,
      )
    }
  }

  #refusal(status: number, text: string): SluiceError {
    const problem = problemOf(text)
    if (problem === undefined || status >= 500) {
      const detail = problem?.detail ?? `status ${status}`
      return new SluiceError('SERVER_UNAVAILABLE', `the server at ${this.#base} cannot do it now: ${detail}`)
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

/** `fetch failed` says nothing; its cause does. */
function reasonOf(error: unknown): string {
  const cause = error instanceof Error ? error.cause : undefined
  const code = cause instanceof Error && 'code' in cause ? String(cause.code) : undefined
  return code ?? messageOf(cause ?? error)
}
