import { STATUS_CODES } from 'node:http'
import type { FastifyError, FastifyReply, FastifyRequest } from 'fastify'
import { PROBLEM_TYPE, type Problem } from '../../api/problem.ts'
import { translateError } from '../../db/sqlstate.ts'
import { type ErrorCode, SluiceError } from '../../errors.ts'
import { withoutSecrets } from '../../model/redact.ts'
import { hideHolder, namesHolder } from '../callers/hide-holder.ts'
import type { Server, ServerParts } from '../parts.ts'

/** What Fastify refuses before a handler sees it. */
const OF_FASTIFY: Readonly<Record<string, ErrorCode>> = {
  FST_ERR_CTP_INVALID_MEDIA_TYPE: 'UNSUPPORTED_MEDIA_TYPE',
  FST_ERR_CTP_INVALID_HANDLER: 'UNSUPPORTED_MEDIA_TYPE',
  FST_ERR_NOT_FOUND: 'ROUTE_NOT_FOUND',
  FST_ERR_HANDLER_TIMEOUT: 'DATABASE_UNAVAILABLE',
}

/** Said instead of what Fastify says, which helps nobody. */
const ADVICE: Partial<Record<ErrorCode, string>> = {
  UNSUPPORTED_MEDIA_TYPE: 'the body must be JSON, and be sent as such: send Content-Type: application/json',
}

/** Details that would tell strangers where the database is stay in the log. */
const UNSAID: Partial<Record<ErrorCode, string>> = {
  DATABASE_UNAVAILABLE:
    'the database cannot be reached, or could not do it in time; nobody knows whether it was done: ask again with the same Idempotency-Key',
  DATABASE_UNSUITABLE: 'the database does not fit this server; its log says how',
  CLOSED: 'the server is being stopped: ask again',
}

/** Bytes of a refused body that are still read, so that the client can read the answer. */
const DISCARDED_BYTES = 64 * 1024 * 1024

/** Answers every error as problem+json, and logs those that are the server's own. */
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
  // Where an address cannot be decoded no hook has run.
  reply.header('x-request-id', request.id)
  const retryAfter = details.retryAfter ?? (status === 503 ? 1 : undefined)
  if (typeof retryAfter === 'number') reply.header('retry-after', String(Math.max(1, Math.ceil(retryAfter))))
  if (status === 401) reply.header('www-authenticate', 'Bearer realm="sluice"')
  if (code === 'PAYLOAD_TOO_LARGE' && isBriefBody(request)) reply.removeHeader('connection')
  const body: Problem = { ...problemOf(known), requestId: request.id }
  return reply.code(status).header('content-type', PROBLEM_TYPE).serializer(serialise).send(body)
}

/**
 * Whether the rest of a body that is refused for its length is read before the connection closes. Closing earlier resets the connection, and a
 * client that is still sending sees an error instead of the answer.
 */
function isBriefBody({ headers }: FastifyRequest): boolean {
  return Number(headers['content-length']) <= DISCARDED_BYTES
}

/** What is said of an error, but for the id of the request. */
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

/** Messages quote what was wrong, and what was wrong may be a key in the wrong place. */
function serialise(body: unknown): string {
  return withoutSecrets(JSON.stringify(body))
}

/** Whatever was thrown as an error of ours. What nobody foresaw is `INTERNAL` and tells only an id. */
export function toSluiceError(error: unknown, request: FastifyRequest): SluiceError {
  const translated = translateRefusal(error, request)
  if (translated instanceof SluiceError) return translated
  return new SluiceError(
    'INTERNAL',
    'something went wrong in the server; its log has the cause under this id',
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
  // Syntax of JSON and of addresses, prototype poisoning, a content-length that does not fit.
  if (statusCode !== undefined && statusCode >= 400 && statusCode < 500)
    return new SluiceError('INVALID_ARGUMENT', message ?? 'the request cannot be read', { cause: error })
  return fromDatabase(error)
}

function tooLarge({ routeOptions }: FastifyRequest, cause: unknown): SluiceError {
  const limit = routeOptions.bodyLimit
  const bytes = `${limit} bytes${limit >= 1024 * 1024 ? ` (${limit / 1024 / 1024} MiB)` : ''}`
  return new SluiceError(
    'PAYLOAD_TOO_LARGE',
    `the body is too large: at most ${bytes} are taken here; send less, or in parts`,
    { cause, details: { limit } },
  )
}

/**
 * Only what carries a SQLSTATE or a system's code came from the database. A TypeError is a bug, not a lost connection, also
 * where Node has given it a code, such as ERR_INVALID_ARG_TYPE.
 */
function fromDatabase(error: unknown): unknown {
  if (error instanceof TypeError || error instanceof RangeError) return error
  const code = error instanceof Error && 'code' in error ? error.code : undefined
  // The driver says it without a code.
  const isLost = error instanceof Error && /^Connection terminated/.test(error.message)
  return isLost || (typeof code === 'string' && !code.startsWith('FST_')) ? translateError(error) : error
}
