import { STATUS_CODES } from 'node:http'
import type { FastifyError, FastifyReply, FastifyRequest } from 'fastify'
import { PROBLEM_TYPE, type Problem } from '../../api/problem.ts'
import { translateError } from '../../db/sqlstate.ts'
import { type ErrorCode, SluiceError } from '../../errors.ts'
import { withoutSecrets } from '../../model/redact.ts'
import { hideHolder, namesHolder } from '../callers/hide-holder.ts'
import type { Server, ServerParts } from '../parts.ts'

/** The error codes for requests that Fastify rejects before a handler runs. */
const OF_FASTIFY: Readonly<Record<string, ErrorCode>> = {
  FST_ERR_CTP_INVALID_MEDIA_TYPE: 'UNSUPPORTED_MEDIA_TYPE',
  FST_ERR_CTP_INVALID_HANDLER: 'UNSUPPORTED_MEDIA_TYPE',
  FST_ERR_NOT_FOUND: 'ROUTE_NOT_FOUND',
  FST_ERR_HANDLER_TIMEOUT: 'DATABASE_UNAVAILABLE',
}

/** Replaces messages of Fastify that do not say what to do. */
const ADVICE: Partial<Record<ErrorCode, string>> = {
  UNSUPPORTED_MEDIA_TYPE: 'the body must be JSON: send Content-Type: application/json',
}

/** Replaces messages that could reveal where the database is. The log has the original. */
const UNSAID: Partial<Record<ErrorCode, string>> = {
  DATABASE_UNAVAILABLE:
    'the database is unreachable or did not respond in time, and the outcome is unknown: repeat the request with the same Idempotency-Key',
  DATABASE_UNSUITABLE: 'the database is not suitable for this server; the log of the server has the reason',
  CLOSED: 'the server is shutting down: repeat the request',
}

/** How many bytes of a rejected body the server still reads, so that the client can read the response. */
const DISCARDED_BYTES = 64 * 1024 * 1024

/** Sends every error as problem+json, and logs internal errors. */
export function registerProblems(server: Server, { services }: ServerParts): void {
  server.setErrorHandler((error, request, reply) =>
    namesHolder(error, request)
      ? hideHolder(services.calls, request, error).then((heard) => sendProblem(heard, request, reply))
      : sendProblem(error, request, reply),
  )
}

export function sendProblem(error: unknown, request: FastifyRequest, reply: FastifyReply): FastifyReply {
  const known = toSluiceError(error, request)
  const { code, status, details } = known
  if (status >= 500) {
    const level = code === 'INTERNAL' ? 'error' : 'warn'
    request.log[level]({ err: known.cause ?? known, code, problem: known.message }, 'a request failed')
  }
  // The hook that sets this header has not run if the address could not be decoded.
  reply.header('x-request-id', request.id)
  const retryAfter = details.retryAfter ?? (status === 503 ? 1 : undefined)
  if (typeof retryAfter === 'number') reply.header('retry-after', String(Math.max(1, Math.ceil(retryAfter))))
  if (status === 401) reply.header('www-authenticate', 'Bearer realm="sluice"')
  if (code === 'PAYLOAD_TOO_LARGE' && isBriefBody(request)) reply.removeHeader('connection')
  const body: Problem = { ...problemOf(known), requestId: request.id }
  return reply.code(status).header('content-type', PROBLEM_TYPE).serializer(serialise).send(body)
}

/**
 * Whether the rest of a body that is too large is read before the connection closes. Closing earlier resets the connection, and a
 * client that is still sending gets an error instead of the response.
 */
function isBriefBody({ headers }: FastifyRequest): boolean {
  return Number(headers['content-length']) <= DISCARDED_BYTES
}

/** The body of the response for an error, without the id of the request. */
export function problemOf({
  code,
  status,
  details,
  message,
}: Pick<SluiceError, 'code' | 'status' | 'details' | 'message'>): Omit<Problem, 'requestId'> {
  return {
    ...(status < 500 ? details : {}),
    type: 'about:blank',
    title: STATUS_CODES[status] ?? 'Error',
    status,
    detail: UNSAID[code] ?? message,
    code,
  }
}

/** Removes API keys: a message quotes invalid values, and one of them may be a key in the wrong place. */
function serialise(body: unknown): string {
  return withoutSecrets(JSON.stringify(body))
}

/** Converts anything thrown to a `SluiceError`. Unexpected errors become `INTERNAL`, and the response reveals only an id. */
export function toSluiceError(error: unknown, request: FastifyRequest): SluiceError {
  const translated = translateRefusal(error, request)
  if (translated instanceof SluiceError) return translated
  return new SluiceError(
    'INTERNAL',
    'an unexpected error occurred in the server; its log has the cause under this request id',
    {
      cause: error,
    },
  )
}

function translateRefusal(error: unknown, request: FastifyRequest): unknown {
  if (error instanceof SluiceError) return error
  const { code, statusCode, message } = error as Partial<FastifyError>
  if (code === 'FST_ERR_CTP_BODY_TOO_LARGE') return tooLarge(request, error)
  if (typeof code === 'string' && OF_FASTIFY[code] !== undefined)
    return new SluiceError(OF_FASTIFY[code], ADVICE[OF_FASTIFY[code]] ?? message ?? '', { cause: error })
  // Invalid JSON or addresses, prototype poisoning, and a wrong content-length.
  if (statusCode !== undefined && statusCode >= 400 && statusCode < 500)
    return new SluiceError('INVALID_ARGUMENT', message ?? 'the request cannot be read', { cause: error })
  return fromDatabase(error)
}

function tooLarge({ routeOptions }: FastifyRequest, cause: unknown): SluiceError {
  const limit = routeOptions.bodyLimit
  const bytes = `${limit} bytes${limit >= 1024 * 1024 ? ` (${limit / 1024 / 1024} MiB)` : ''}`
  return new SluiceError(
    'PAYLOAD_TOO_LARGE',
    `the body is too large: the maximum is ${bytes}; send less, or split the request`,
    { cause, details: { limit } },
  )
}

/**
 * Errors of the database have a SQLSTATE or a system error code. A TypeError is a bug, not a lost connection, even
 * if Node gave it a code, such as ERR_INVALID_ARG_TYPE.
 */
function fromDatabase(error: unknown): unknown {
  if (error instanceof TypeError || error instanceof RangeError) return error
  const code = error instanceof Error && 'code' in error ? error.code : undefined
  // The driver reports a lost connection without a code.
  const isLost = error instanceof Error && /^Connection terminated/.test(error.message)
  return isLost || (typeof code === 'string' && !code.startsWith('FST_')) ? translateError(error) : error
}
