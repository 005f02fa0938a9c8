import { fastifyCookie as cookies } from '@fastify/cookie'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { isCsrfToken } from '../../engine/access/sessions.ts'
import { SluiceError } from '../../errors.ts'

/** Over TLS the name has a prefix: browsers then refuse it from other hosts, from other paths and without TLS. */
const NAME = 'sluice_session'
const SECURE_NAME = `__Host-${NAME}`

/** Browsers trust these without TLS. */
const LOOPBACK_HOST = /^(?:(?:[\w-]+\.)*localhost|127(?:\.\d+){3}|\[::1\])(?::\d+)?$/i

/** The header in which a page sends back what it was told when it signed in. */
export const CSRF_HEADER = 'x-sluice-csrf'

const SAFE: ReadonlySet<string> = new Set(['GET', 'HEAD'])

/**
 * Over TLS only the cookie that was set over TLS counts. The other one may have been set by anybody between the browser
 * and this server, who would make somebody work under a session of theirs.
 *
 * @throws {SluiceError} `FORBIDDEN` for what a browser sends on behalf of another site.
 */
export function readSessionCookie(request: FastifyRequest): string | undefined {
  const header = request.headers.cookie
  if (header === undefined) return undefined
  const found = cookies.parse(header)
  if (found[SECURE_NAME] !== undefined || found[NAME] === undefined) return found[SECURE_NAME]
  // First, because the origin of another site says nothing about how this server was reached.
  checkSameOrigin(request)
  return isSecure(request) ? undefined : found[NAME]
}

export function setSessionCookie(
  request: FastifyRequest,
  reply: FastifyReply,
  token: string,
  expiresAt: Date,
): void {
  setCookie(request, reply, token, expiresAt)
}

export function clearSessionCookie(request: FastifyRequest, reply: FastifyReply): void {
  setCookie(request, reply, '', new Date(0))
}

function setCookie(request: FastifyRequest, reply: FastifyReply, value: string, expires: Date): void {
  const secure = isSecure(request)
  const common = { path: '/', httpOnly: true, sameSite: 'strict', expires } as const
  reply.header('set-cookie', cookies.serialize(secure ? SECURE_NAME : NAME, value, { ...common, secure }))
}

/**
 * A proxy that ends TLS says so where `trustProxy` names it. Where it is not named, browsers still do: by the address of
 * the page in `Origin`, and, where there is none, by `Sec-Fetch-Site`, which they send over TLS and to loopback only.
 */
function isSecure(request: FastifyRequest): boolean {
  if (request.protocol === 'https') return true
  const { origin, 'sec-fetch-site': site, host = '' } = request.headers
  if (origin !== undefined && origin !== 'null') return origin.startsWith('https://')
  return site !== undefined && !LOOPBACK_HOST.test(host)
}

/**
 * A cookie travels with whatever a browser is made to send. It counts only when one of our own pages sent it: by what
 * browsers say about where a request comes from, and, where something would change, by a token only such a page has.
 *
 * @throws {SluiceError} `FORBIDDEN`
 */
export function checkOwnPage(request: FastifyRequest, sessionToken: string): void {
  checkSameOrigin(request)
  if (SAFE.has(request.method)) return
  const given = request.headers[CSRF_HEADER]
  if (typeof given === 'string' && isCsrfToken(given, sessionToken)) return
  throw new SluiceError(
    'FORBIDDEN',
    `with a session, ${request.method} requires the header ${CSRF_HEADER} with the csrfToken from GET /api/v1/session`,
  )
}

/** @throws {SluiceError} `FORBIDDEN` for what a browser sends on behalf of another site. */
export function checkSameOrigin(request: FastifyRequest): void {
  const { 'sec-fetch-site': site, origin, host } = request.headers
  // 'none': typed or bookmarked by the user. Older browsers, and all of them without TLS, send only the origin.
  const own =
    site !== undefined
      ? site === 'same-origin' || site === 'none'
      : origin === undefined || (URL.canParse(origin) && new URL(origin).host === host?.toLowerCase())
  if (!own) throw new SluiceError('FORBIDDEN', 'this request came from a page of another site')
}
