import type { FastifyRequest, RouteOptions } from 'fastify'
import type { Caller } from '../../engine/access/caller.ts'
import { SluiceError } from '../../errors.ts'
import { isPermission, type Permission } from '../../model/permissions.ts'
import { recordRefusal } from '../limits/refusals.ts'
import type { Access, Server, ServerParts } from '../parts.ts'
import { Identification } from './identify.ts'

const WORDS: ReadonlySet<string> = new Set(['public', 'metrics', 'caller', 'sign-in'])
const LOOPBACK: ReadonlySet<string> = new Set(['127.0.0.1', '::1', '::ffff:127.0.0.1'])
const LOCAL_HOST = /^(?:localhost|127\.0\.0\.1|\[::1\])(?::\d+)?$/i

/**
 * Decides about every request before its body is read.
 *
 * The decision hangs on the route's own object, never on the look of the address. A route that says nothing about who may
 * call it keeps the server from starting.
 */
export function registerAccess(server: Server, parts: ServerParts): Identification {
  const routes: RouteOptions[] = []
  server.addHook('onRoute', (route) => {
    routes.push(route)
  })
  server.decorate('routeTable', routes)
  // Checked when all are known: the pages of the reference get theirs after the plugin has declared them.
  server.addHook('onReady', async () => {
    for (const { method, url, config } of routes) {
      if (!isAccess(config?.access))
        throw new Error(`route ${String(method)} ${url} does not declare in config.access who may call it`)
    }
  })
  server.decorateRequest('caller', null as unknown as Caller)
  server.decorateRequest('session', undefined)
  const identification = new Identification(parts)
  server.addHook('onRequest', async (request) => {
    if (request.is404) return
    const { access } = request.routeOptions.config
    // Never so for a route that has started; what is not decided is closed.
    if (!isAccess(access)) throw new SluiceError('FORBIDDEN', 'this route cannot be called')
    if (access === 'public' || access === 'sign-in') return
    if (access === 'metrics' && isLocal(request)) return
    request.caller = await identification.identify(request)
    if (access === 'caller') return
    const wanted = access === 'metrics' ? ['workers:view' as const] : [access].flat()
    if (wanted.some((permission) => request.caller.may(permission))) return
    await recordRefusal(parts, request, 'access.refuse')
    throw forbidden(request.caller, wanted)
  })
  return identification
}

function isAccess(access: Access | undefined): access is Access {
  if (typeof access === 'string' && WORDS.has(access)) return true
  const names: readonly unknown[] = [access].flat()
  return names.length > 0 && names.every((name) => typeof name === 'string' && isPermission(name))
}

/**
 * A program on this machine. A proxy in front speaks from here too, but adds who it speaks for: not every one does so
 * unasked, which the guide to access says. A page of another site that was given our address speaks from here too, but to
 * the name of its own host.
 */
export function isLocal(request: FastifyRequest): boolean {
  const { forwarded, 'x-forwarded-for': forwardedFor, host } = request.headers
  return (
    LOOPBACK.has(request.socket.remoteAddress ?? '') &&
    LOCAL_HOST.test(host ?? '') &&
    forwarded === undefined &&
    forwardedFor === undefined
  )
}

export function forbidden(caller: Caller, wanted: readonly Permission[]): SluiceError {
  return new SluiceError(
    'FORBIDDEN',
    `the role ${caller.role} does not allow this: it lacks the permission ${wanted.join(' or ')}`,
    { details: { role: caller.role, needs: wanted } },
  )
}
