import type { FastifyRequest, RouteOptions } from 'fastify'
import { authenticate } from '../engine/access/authenticate.ts'
import type { Caller } from '../engine/access/caller.ts'
import { audit } from '../engine/audit.ts'
import { SluiceError } from '../errors.ts'
import { isPermission, type Permission } from '../model/permissions.ts'
import type { Access, Server, ServerParts } from './parts.ts'

const UNSAFE: ReadonlySet<string> = new Set(['POST', 'PUT', 'PATCH', 'DELETE'])
const LOOPBACK: ReadonlySet<string> = new Set(['127.0.0.1', '::1', '::ffff:127.0.0.1'])

/**
 * Decides about every request before its body is read.
 *
 * The decision hangs on the route's own object, never on the look of the address. A route that says nothing about who may
 * call it keeps the server from starting.
 */
export function registerAccess(server: Server, parts: ServerParts): void {
  const routes: RouteOptions[] = []
  server.addHook('onRoute', (route) => {
    routes.push(route)
  })
  // Checked when all are known: the pages of the reference get theirs after the plugin has declared them.
  server.addHook('onReady', async () => {
    for (const { method, url, config } of routes) {
      if (!isAccess(config?.access))
        throw new Error(`route ${String(method)} ${url} does not say in config.access who may call it`)
    }
  })
  server.decorateRequest('caller', null as unknown as Caller)
  server.addHook('onRequest', async (request) => {
    if (request.is404) return
    const { access } = request.routeOptions.config
    // Never so for a route that has started; what is not decided is closed.
    if (!isAccess(access)) throw new SluiceError('FORBIDDEN', 'nobody may call this address')
    if (access === 'public') return
    if (access === 'metrics' && isLocal(request)) return
    request.caller = await identify(parts, request)
    const wanted = access === 'metrics' ? ['workers:view' as const] : [access].flat()
    if (wanted.some((permission) => request.caller.may(permission))) return
    await recordRefusal(parts, request, 'access')
    throw forbidden(request.caller, wanted)
  })
}

function isAccess(access: Access | undefined): access is Access {
  if (access === 'public' || access === 'metrics') return true
  const names: readonly unknown[] = [access].flat()
  return names.length > 0 && names.every((name) => typeof name === 'string' && isPermission(name))
}

/** A proxy in front speaks from this machine too, but adds who it speaks for. */
function isLocal(request: FastifyRequest): boolean {
  const { forwarded, 'x-forwarded-for': forwardedFor } = request.headers
  return (
    LOOPBACK.has(request.socket.remoteAddress ?? '') && forwarded === undefined && forwardedFor === undefined
  )
}

async function identify(parts: ServerParts, request: FastifyRequest): Promise<Caller> {
  const token = tokenOf(request.headers.authorization)
  const found = token === undefined ? undefined : await authenticate(parts.room.calls, token)
  if (found !== undefined) return found
  const how = 'send "Authorization: Bearer KEY" with a key that is neither revoked nor expired'
  throw new SluiceError('UNAUTHENTICATED', token === undefined ? `no key came with the request: ${how}` : how)
}

function tokenOf(header: string | undefined): string | undefined {
  return /^Bearer +([\x21-\x7e]{1,200})$/i.exec(header ?? '')?.[1]
}

export function forbidden(caller: Caller, wanted: readonly Permission[]): SluiceError {
  return new SluiceError(
    'FORBIDDEN',
    `the role ${caller.role} does not allow this: it needs ${wanted.join(' or ')}`,
    { details: { role: caller.role, needs: wanted } },
  )
}

/** A refused attempt to change something, in the audit. That it cannot be written there is no reason to let it pass. */
export async function recordRefusal(
  parts: ServerParts,
  request: FastifyRequest,
  action: string,
  refused = 'FORBIDDEN',
  target?: string,
): Promise<void> {
  if (!UNSAFE.has(request.method)) return
  const { caller } = request
  await audit(parts.room.calls, {
    actor: caller.name,
    keyId: caller.keyId,
    action,
    target: target ?? `${request.method} ${request.url.split('?', 1)[0]}`,
    refused,
    requestId: request.id,
  }).catch((error) => request.log.warn({ err: error }, 'a refused attempt could not be written down'))
}
