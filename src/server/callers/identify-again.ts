import type { FastifyRequest } from 'fastify'
import type { Queryable } from '../../db/database.ts'
import { authenticate } from '../../engine/access/authenticate.ts'
import type { Caller } from '../../engine/access/caller.ts'
import { authenticateSession } from '../../engine/access/sessions.ts'
import { readSessionCookie } from './session-cookie.ts'

/**
 * The caller of a request that has lasted a while, as he is now: revoked, expired and changed roles count. `undefined`: the
 * credential is not good any more.
 */
export async function identifyAgain(db: Queryable, request: FastifyRequest): Promise<Caller | undefined> {
  const { authorization } = request.headers
  if (authorization === undefined)
    return (await authenticateSession(db, readSessionCookie(request) ?? ''))?.caller
  return authenticate(db, authorization.replace(/^Bearer +/i, ''))
}
