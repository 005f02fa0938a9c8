import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import type {
  FastifyBaseLogger,
  FastifyInstance,
  RawReplyDefaultExpression,
  RawRequestDefaultExpression,
  RawServerDefault,
  RouteOptions,
} from 'fastify'
import type { Logger } from 'pino'
import type { Sluice } from '../app/app.ts'
import type { Services } from '../app/services.ts'
import type { Caller } from '../engine/access/caller.ts'
import type { Permission } from '../model/permissions.ts'
import type { ServerConnections } from './limits/connections.ts'
import type { RefusalTally } from './limits/refusal-tally.ts'

/** What every route gets. */
export interface ServerParts {
  readonly app: Sluice
  readonly services: Services
  readonly connections: ServerConnections
  readonly log: Logger
  /** Which refusals are written into the audit: by key, and wrong keys by their address. */
  readonly refusals: RefusalTally
  readonly wrongKeys: RefusalTally
  readonly version: string
  /** A graceful stop is under way: no new work is taken, streams end. */
  readonly draining: () => boolean
}

/** Fastify with the types of TypeBox. */
export type Server = FastifyInstance<
  RawServerDefault,
  RawRequestDefaultExpression,
  RawReplyDefaultExpression,
  FastifyBaseLogger,
  TypeBoxTypeProvider
>

/**
 * Who may call a route: whoever has the permission, or one of several; everybody; for metrics, programs on this machine
 * and whoever has `workers:view`; whoever has any key at all; or, to sign in, whoever brings a key in the body.
 */
export type Access = Permission | readonly Permission[] | 'public' | 'metrics' | 'caller' | 'sign-in'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Every route has it; the server does not start otherwise. */
    access?: Access
  }
  interface FastifyInstance {
    /** Every route there is, with who may call it. */
    readonly routeTable: readonly RouteOptions[]
  }
  interface FastifyRequest {
    /** Set before any handler of a route that is not public. */
    caller: Caller
    /** Why it is done, as the header `x-sluice-reason` says. */
    reason: string | undefined
  }
}
