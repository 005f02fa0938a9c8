import { fastifyCookie as cookies } from '@fastify/cookie'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { isCsrfToken } from '../engine/access/sessions.ts'
import { SluiceError } from '../errors.ts'

/** Over TLS the name has a prefix: browsers then refuse it from other hosts, from other paths and without TLS. */
const NAME = 'sluice_session'
const SECURE_NAME = `__Host-${NAME}`

/** The header in which a page sends back what it was told when it signed in. */
export const CSRF_HEADER = 'x-sluice-csrf'

const SAFE: ReadonlySet<string> = new Set(['GET', 'HEAD'])

export function readSessionCookie(request: FastifyRequest): string | undefined {
  const header = request.headers.cookie
  if (header === undefined) return undefined
  const found = cookies.parse(header)
  return found[SECURE_NAME] ?? found[NAME]
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

/** Behind a proxy that ends TLS the page still says so: a browser writes the address it loaded the page from. */
function isSecure(request: FastifyRequest): boolean {
  return request.protocol === 'https' || request.headers.origin?.startsWith('https://') === true
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
    `with a session, ${request.method} needs the header ${CSRF_HEADER} with the csrfToken of GET /api/v1/session`,
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
  if (!own) throw new SluiceError('FORBIDDEN', 'a page of another site sent this request')
}
