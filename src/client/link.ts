import { readProblem } from '../api/read-problem.ts'
import { checkServer, checkServerKey, plainWarning } from '../api/server-address.ts'
import { isErrorCode, messageOf, SluiceError } from '../errors.ts'
import { toStorableJson } from '../model/json.ts'
import { within } from '../within.ts'

/** Where a server is, and what opens it. */
export interface ServerOptions {
  /** Such as `https://sluice.example.com`. */
  readonly server: string
  /** An API key. Without one: the session of a browser that has signed in, whose cookie travels by itself. */
  readonly key?: string | undefined
  /** Sent with every request: the `x-sluice-csrf` of a session. */
  readonly headers?: (() => Readonly<Record<string, string>>) | undefined
  /** Called when the key would travel readable: to a server beyond this machine without TLS. Default: a warning of Node, where it runs there. */
  readonly onWarning?: ((message: string) => void) | undefined
}

export type Query = Readonly<Record<string, string | number | boolean | undefined>>

export interface Request {
  readonly query?: Query
  /** Sent as JSON. */
  readonly body?: unknown
  readonly headers?: Readonly<Record<string, string>>
  readonly signal?: AbortSignal | undefined
}

type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'

/** A server answers within 45 s. */
const ANSWER_MS = 60_000

/** Members of a problem that say the same as an error's code and message, or nothing to a program. */
const SAID = new Set(['type', 'title', 'status', 'detail', 'code', 'requestId'])

/** Browsers have no `process`, and no key either. */
function emitWarning(message: string): void {
  const { process } = globalThis as { process?: { emitWarning?: (text: string, type: string) => void } }
  process?.emitWarning?.(message, 'SluiceWarning')
}

/**
 * Speaks to a server of Sluice with `fetch`. The key is in one header and nowhere else: not in addresses, messages or
 * causes of errors.
 */
export class Link {
  /** For messages. */
  readonly address: string
  readonly #base: string
  readonly #headers: () => Readonly<Record<string, string>>

  /** @throws {SluiceError} `INVALID_ARGUMENT` when the address or the key cannot be one. */
  constructor({ server, key, headers = () => ({}), onWarning = emitWarning }: ServerOptions) {
    const url = checkServer(server)
    const warning = key === undefined ? undefined : plainWarning(url)
    if (warning !== undefined) onWarning(warning)
    this.address = `the server at ${url}`
    this.#base = `${url}/api/v1`
    const own = key === undefined ? {} : { authorization: `Bearer ${checkServerKey(key)}` }
    this.#headers = () => ({ ...own, ...headers() })
  }

  /**
   * Sends a request and gives the JSON of its answer; `null` where there is none.
   *
   * @throws {SluiceError} as the server says; `SERVER_UNAVAILABLE` when there is no server of Sluice, or nobody knows
   *   whether it was done; `NOT_STORABLE` for a body that JSON cannot say.
   */
  async call<T>(method: Method, path: string, request: Request = {}): Promise<T> {
    return within(ANSWER_MS, request.signal, async (signal) => {
      const response = await this.#send(method, path, { ...request, signal })
      const text = await response.text().catch((error) => this.#fail(error, request.signal))
      if (response.status === 204) return null as T
      try {
        return JSON.parse(text) as T
      } catch {
        throw this.#stranger(response)
      }
    })
  }

  /** Opens a stream of server-sent events; `undefined` when there is nothing more to tell. */
  async open(path: string, request: Request): Promise<ReadableStream<Uint8Array> | undefined> {
    const headers = { ...request.headers, accept: 'text/event-stream' }
    const response = await this.#send('GET', path, { ...request, headers })
    if (response.status === 204) return undefined
    if (!isOf(response, 'text/event-stream') || response.body === null) throw this.#stranger(response)
    return response.body
  }

  /** Sends, and takes only answers that are no refusals. */
  async #send(method: Method, path: string, request: Request): Promise<Response> {
    const { query = {}, body, headers, signal } = request
    const url = `${this.#base}${path}${queryString(query)}`
    const init: RequestInit = {
      method,
      // A redirect would make a GET of a POST, and take the key to wherever it leads.
      redirect: 'manual',
      headers: {
        ...this.#headers(),
        ...(body !== undefined && { 'content-type': 'application/json' }),
        ...headers,
      },
      // As the library judges it: JSON would write NaN as null, and a job would run with another input than its author's.
      ...(body !== undefined && { body: toStorableJson(body, 'what is sent') }),
      ...(signal !== undefined && { signal }),
    }
    const response = await fetch(url, init).catch((error) => this.#fail(error, request.signal))
    if (response.ok) return response
    throw this.#refusal(response, await response.text().catch(() => ''))
  }

  #refusal(response: Response, text: string): SluiceError {
    const problem = readProblem(text)
    if (problem === undefined) return this.#stranger(response)
    const { code, detail, status, requestId } = problem
    const retryAfter = Number(response.headers.get('retry-after') ?? Number.NaN)
    const details = {
      ...(Number.isFinite(retryAfter) && { retryAfter }),
      ...Object.fromEntries(Object.entries(problem).filter(([name]) => !SAID.has(name))),
    }
    if (isErrorCode(code)) {
      const message = code === 'INTERNAL' ? `${detail}: ${requestId}` : detail
      return new SluiceError(code, message, { details })
    }
    return new SluiceError(status < 500 ? 'INVALID_ARGUMENT' : 'INTERNAL', `${detail} (${code})`, { details })
  }

  /** What answers is something else: a proxy in front of a server that is away, or no server of Sluice at all. */
  #stranger(response: Response): SluiceError {
    const { status } = response
    const location = response.headers.get('location')
    const what =
      status >= 500
        ? `${this.address} cannot be reached: something in front of it answers with status ${status}`
        : location !== null
          ? `${this.address} sends elsewhere: give the address ${location.replace(/\/api\/v1.*$/, '')}`
          : `what answers at ${this.address.replace('the server at ', '')} is no server of Sluice: look at the address`
    return new SluiceError('SERVER_UNAVAILABLE', what)
  }

  #fail(error: unknown, given: AbortSignal | undefined): never {
    if (given?.aborted === true && !isTimeout(given.reason)) throw given.reason
    const why = isTimeout(error) ? `no answer within ${ANSWER_MS / 1000} s` : reasonOf(error)
    throw new SluiceError('SERVER_UNAVAILABLE', `${this.address} cannot be reached: ${why}`)
  }
}

/** A name or an id as a part of a path. */
export function segment(text: string, name: string): string {
  // Nothing that is asked for has such a name, and the path would be another one.
  if (text === '' || text === '.' || text === '..')
    throw new SluiceError('INVALID_ARGUMENT', `${name}: ${JSON.stringify(text)} is none`, {
      details: { argument: name },
    })
  return encodeURIComponent(text)
}

function queryString(query: Query): string {
  const parameters = new URLSearchParams()
  for (const [name, value] of Object.entries(query))
    if (value !== undefined) parameters.set(name, String(value))
  const text = parameters.toString()
  return text === '' ? '' : `?${text}`
}

function isOf(response: Response, type: string): boolean {
  return response.headers.get('content-type')?.startsWith(type) === true
}

function isTimeout(error: unknown): boolean {
  return error instanceof Error && error.name === 'TimeoutError'
}

/** `fetch` says no more than that it failed; what is behind it says why. */
function reasonOf(error: unknown): string {
  const cause = error instanceof Error && error.cause !== undefined ? error.cause : error
  const code = typeof cause === 'object' && cause !== null && 'code' in cause ? String(cause.code) : undefined
  return code ?? messageOf(cause)
}
