import { readProblem } from '../api/read-problem.ts'
import { checkServer, checkServerKey, plainWarning } from '../api/server-address.ts'
import { isErrorCode, messageOf, SluiceError } from '../errors.ts'
import { toStorableJson } from '../model/json.ts'
import { within } from '../within.ts'

/** The address of a server, and the key for it. */
export interface ServerOptions {
  /** Such as `https://sluice.example.com`. */
  readonly server: string
  /** An API key. Without one, the session of a signed-in browser applies, whose cookie is sent automatically. */
  readonly key?: string | undefined
  /** Sent with every request: the `x-sluice-csrf` of a session. */
  readonly headers?: (() => Readonly<Record<string, string>>) | undefined
  /** Called when the key would be sent unencrypted to another machine. Default: a process warning, in Node. */
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

/** A server responds within 45 s. */
const ANSWER_MS = 60_000

/** Members of a problem that repeat an error's code and message, or that are of no use to a program. */
const SAID = new Set(['type', 'title', 'status', 'detail', 'code', 'requestId'])

/** Browsers have neither `process` nor a key. */
function emitWarning(message: string): void {
  const { process } = globalThis as { process?: { emitWarning?: (text: string, type: string) => void } }
  process?.emitWarning?.(message, 'SluiceWarning')
}

/**
 * Sends requests to a Sluice server with `fetch`. The key is only in one header: never in addresses, messages or
 * causes of errors.
 */
export class Link {
  /** For messages. */
  readonly address: string
  readonly #base: string
  readonly #headers: () => Readonly<Record<string, string>>

  /** @throws {SluiceError} `INVALID_ARGUMENT` for an invalid address or key. */
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
   * Sends a request and returns the JSON of the response, or `null` if there is none.
   *
   * @throws {SluiceError} the server's error; `SERVER_UNAVAILABLE` when no Sluice server responds, in which case it is
   *   unknown whether the request took effect; `NOT_STORABLE` for a body that JSON cannot represent.
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

  /** Opens a stream of server-sent events. Returns `undefined` if there are no more events. */
  async open(path: string, request: Request): Promise<ReadableStream<Uint8Array> | undefined> {
    const headers = { ...request.headers, accept: 'text/event-stream' }
    const response = await this.#send('GET', path, { ...request, headers })
    if (response.status === 204) return undefined
    if (!isOf(response, 'text/event-stream') || response.body === null) throw this.#stranger(response)
    return response.body
  }

  /** Sends a request and throws for every error response. */
  async #send(method: Method, path: string, request: Request): Promise<Response> {
    const { query = {}, body, headers, signal } = request
    const url = `${this.#base}${path}${queryString(query)}`
    const init: RequestInit = {
      method,
      // A redirect would turn a POST into a GET and send the key to another address.
      redirect: 'manual',
      headers: {
        ...this.#headers(),
        ...(body !== undefined && { 'content-type': 'application/json' }),
        ...headers,
      },
      // Validated as in the library. JSON would write NaN as null, and the job would run with a different input.
      ...(body !== undefined && { body: toStorableJson(body, 'the request body') }),
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

  /** The response is not Sluice's: a proxy in front of an unavailable server, or no Sluice server at all. */
  #stranger(response: Response): SluiceError {
    const { status } = response
    const location = response.headers.get('location')
    const what =
      status >= 500
        ? `${this.address} cannot be reached: a proxy in front of it responds with status ${status}`
        : location !== null
          ? `${this.address} redirects; use the address ${location.replace(/\/api\/v1.*$/, '')}`
          : `the server at ${this.address.replace('the server at ', '')} is not a Sluice server; check the address`
    return new SluiceError('SERVER_UNAVAILABLE', what)
  }

  #fail(error: unknown, given: AbortSignal | undefined): never {
    if (given?.aborted === true && !isTimeout(given.reason)) throw given.reason
    const why = isTimeout(error) ? `no response within ${ANSWER_MS / 1000} s` : reasonOf(error)
    throw new SluiceError('SERVER_UNAVAILABLE', `${this.address} cannot be reached: ${why}`)
  }
}

/** Encodes a name or an id as a path segment. */
export function segment(text: string, name: string): string {
  // Nothing has such a name, and the path would be a different one.
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

/** `fetch` reports only that it failed; the cause says why. */
function reasonOf(error: unknown): string {
  const cause = error instanceof Error && error.cause !== undefined ? error.cause : error
  const code = typeof cause === 'object' && cause !== null && 'code' in cause ? String(cause.code) : undefined
  return code ?? messageOf(cause)
}
