import type { FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import { SessionBody, SignInBody } from '../../api/session.ts'
import { transactWithRetries } from '../../db/with-retries.ts'
import { authenticate } from '../../engine/access/authenticate.ts'
import type { Caller } from '../../engine/access/caller.ts'
import { closeSession, csrfTokenOf, type NewSession, openSession } from '../../engine/access/sessions.ts'
import { orNull } from '../bodies/job-bodies.ts'
import { authorOf } from '../callers/author.ts'
import type { Identification } from '../callers/identify.ts'
import {
  checkSameOrigin,
  clearSessionCookie,
  readSessionCookie,
  setSessionCookie,
} from '../callers/session-cookie.ts'
import type { Server, ServerParts } from '../parts.ts'

/** `/session`: browsers sign in and out. */
export function sessionRoutes(server: Server, parts: ServerParts, identification: Identification): void {
  const { db } = parts.services

  /** The key is looked up before the transaction begins, so a wrong key opens no transaction. */
  async function open(
    request: FastifyRequest,
    { key, token }: { key?: string; token?: string },
  ): Promise<NewSession | undefined> {
    const caller = key === undefined ? undefined : await authenticate(parts.connections.keys, key)
    if (key !== undefined && caller === undefined) return undefined
    const by = caller === undefined ? { signIn: token ?? '' } : { keyId: caller.keyId }
    return transactWithRetries(db, (tx) => openSession(tx, by, request.id))
  }

  server.post(
    '/session',
    {
      config: { access: 'sign-in' },
      // Anyone may send this body without a key, so it is kept small; a key has 47 characters.
      bodyLimit: 4096,
      schema: {
        summary: 'Sign in with a key or a one-time token',
        description:
          'Sets an HTTP-only cookie. With this cookie, every request that makes a change needs the header x-sluice-csrf.',
        tags: ['access'],
        body: SignInBody,
        response: { 201: SessionBody },
      },
    },
    async (request, reply) => {
      checkSameOrigin(request)
      const { key, token = '' } = request.body
      const session = await identification.check(
        request,
        key === undefined ? 'sign-in' : 'key',
        key ?? token,
        () => open(request, request.body),
      )
      request.caller = session.caller
      setSessionCookie(request, reply, session.token, session.expiresAt)
      return reply.code(201).send(toBody(session.caller, session.expiresAt, csrfTokenOf(session.token)))
    },
  )

  server.get(
    '/session',
    {
      config: { access: 'caller' },
      schema: {
        summary: 'Your name, role and permissions',
        tags: ['access'],
        response: { 200: SessionBody },
      },
    },
    async (request) => {
      const token = request.session === undefined ? undefined : readSessionCookie(request)
      const csrfToken = token === undefined ? null : csrfTokenOf(token)
      return toBody(request.caller, request.session?.expiresAt ?? null, csrfToken)
    },
  )

  server.delete(
    '/session',
    {
      config: { access: 'caller' },
      schema: { summary: 'Sign out', tags: ['access'], response: { 204: Type.Null() } },
    },
    async (request, reply) => {
      const { session } = request
      if (session !== undefined)
        await transactWithRetries(db, (tx) => closeSession(tx, session.id, authorOf(request)))
      clearSessionCookie(request, reply)
      return reply.code(204).send(null)
    },
  )
}

function toBody(caller: Caller, expiresAt: Date | null, csrfToken: string | null): SessionBody {
  const { keyId, name, role, permissions } = caller
  return {
    keyId,
    name,
    role,
    permissions: [...permissions],
    expiresAt: orNull(expiresAt),
    csrfToken,
  }
}
