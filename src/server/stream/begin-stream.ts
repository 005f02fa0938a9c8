import type { ServerResponse } from 'node:http'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Queryable } from '../../db/database.ts'
import type { Permission } from '../../model/permissions.ts'
import { identifyAgain } from '../callers/identify-again.ts'
import { readSessionCookie } from '../callers/session-cookie.ts'
import type { Right } from './open-streams.ts'

/** Takes a request out of the hands of the server: what it answers is a stream. */
export function beginStream(request: FastifyRequest, reply: FastifyReply): ServerResponse {
  reply.hijack()
  // Streams are silent for longer than requests may be; heartbeats find out who has gone.
  request.raw.socket.setTimeout(0)
  for (const [name, value] of Object.entries(reply.getHeaders())) reply.raw.setHeader(name, value as string)
  return reply.raw
}

/** The credential as it is now: revoked, expired and changed roles count while a stream lasts. */
export function rightOf(db: Queryable, request: FastifyRequest, needs: readonly Permission[]): Right {
  const { authorization } = request.headers
  const token = authorization?.replace(/^Bearer +/i, '') ?? readSessionCookie(request) ?? ''
  return {
    keyId: request.caller.keyId,
    name: `${needs.join()} ${token}`,
    async refused() {
      const caller = await identifyAgain(db, request)
      if (caller === undefined) return 'UNAUTHENTICATED'
      return needs.every((permission) => caller.may(permission)) ? undefined : 'FORBIDDEN'
    },
  }
}
