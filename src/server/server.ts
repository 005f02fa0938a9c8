import { randomUUID } from 'node:crypto'
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import { type FastifyBaseLogger, fastify, LogController } from 'fastify'
import { registerJsonBody } from './bodies/json-body.ts'
import { registerAccess } from './callers/access.ts'
import type { Identification } from './callers/identify.ts'
import { registerReason } from './callers/reason.ts'
import { registerReplayed } from './http/idempotency.ts'
import { registerNotFound } from './http/not-found.ts'
import { registerOpenApi, registerReference } from './http/openapi.ts'
import { registerProblems, sendProblem } from './http/problem.ts'
import { registerRequestLog } from './http/request-log.ts'
import { registerSecurityHeaders, requireHost, SECURITY_HEADERS } from './http/security-headers.ts'
import { compileValidator } from './http/validation.ts'
import { registerCallerShares, type ShareLimits } from './limits/caller-shares.ts'
import { refuseEarly } from './limits/early-refusal.ts'
import { refuseBody } from './limits/refuse-body.ts'
import { MAX_HEADER_BYTES, refuseConnection, refuseExpectation } from './limits/refuse-connection.ts'
import { refuseIdempotency } from './limits/refuse-idempotency.ts'
import { Metrics } from './metrics/metrics.ts'
import type { Server, ServerParts } from './parts.ts'
import { adminWorkerRoutes } from './routes/admin-workers.ts'
import { admissionRoutes } from './routes/admission.ts'
import { auditRoutes } from './routes/audit.ts'
import { budgetRoutes } from './routes/budgets.ts'
import { bulkActionRoutes } from './routes/bulk-actions.ts'
import { DashboardPage, dashboardRoutes } from './routes/dashboard.ts'
import { errorRoutes } from './routes/errors.ts'
import { fleetRoutes } from './routes/fleet.ts'
import { healthRoutes } from './routes/health.ts'
import { jobActionRoutes } from './routes/job-actions.ts'
import { jobListRoutes } from './routes/job-list.ts'
import { jobStreamRoutes } from './routes/job-stream.ts'
import { jobWhyRoutes } from './routes/job-why.ts'
import { jobRoutes } from './routes/jobs.ts'
import { keyRoutes } from './routes/keys.ts'
import { laneRoutes } from './routes/lanes.ts'
import { liveRoutes } from './routes/live.ts'
import { metricsRoutes } from './routes/metrics.ts'
import { recoveryRoutes } from './routes/recovery.ts'
import { resultRoutes } from './routes/results.ts'
import { roleRoutes } from './routes/roles.ts'
import { scheduleRoutes } from './routes/schedules.ts'
import { sessionRoutes } from './routes/session.ts'
import { submitRoutes } from './routes/submit.ts'
import { taskRoutes } from './routes/tasks.ts'
import { waterfallRoutes } from './routes/waterfall.ts'
import { workerProtocolRoutes } from './routes/worker-protocol.ts'

export interface ServerLimits {
  /** Bytes of a body. */
  readonly bodyBytes: number
  /** For the headers of a request to arrive, and for all of it. */
  readonly headersMs: number
  readonly requestMs: number
  /** For the answer to be made; streams and long polls have limits of their own. */
  readonly handlerMs: number
  /** Without a byte in either direction. Streams send a heartbeat more often. */
  readonly idleMs: number
  readonly keepAliveMs: number
  readonly connections: number
  readonly perKey: ShareLimits
  /** How often it looks for requests that are late. */
  readonly checkEveryMs: number
}

export const DEFAULT_LIMITS: ServerLimits = {
  bodyBytes: 1024 * 1024,
  headersMs: 10_000,
  requestMs: 30_000,
  // More than the 30 s after which a statement is given up, so that its own error is what the caller gets.
  handlerMs: 45_000,
  idleMs: 90_000,
  // More than the 60 s of common balancers: whoever closes first must not be the server.
  keepAliveMs: 72_000,
  connections: 10_000,
  perKey: { atOnce: 64, waiting: 1000 },
  checkEveryMs: 5000,
}

/** Nobody logs headers on purpose. Should somebody do so, in an error for example, these are left out. */
const SECRETS = ['authorization', 'cookie', '["set-cookie"]', '["x-sluice-csrf"]'].flatMap((name) => {
  const member = name.startsWith('[') ? name : `.${name}`
  return [`headers${member}`, `*.headers${member}`]
})

/** Long names are refused by their schemas; this only keeps the router from working on megabytes. */
const MAX_PARAM = 1000

/**
 * The HTTP server, ready to listen.
 *
 * It keeps nothing that another server on the same database would need, so there may be any number of them.
 *
 * @throws {Error} when a route does not say who may call it.
 */
export async function buildServer(
  parts: ServerParts,
  limits: ServerLimits = DEFAULT_LIMITS,
  trustProxy: readonly string[] | null = null,
): Promise<Server> {
  const server: Server = fastify({
    loggerInstance: parts.log.child({}, { redact: SECRETS }) as FastifyBaseLogger,
    logController: new LogController({ disableRequestLogging: true }),
    // Ids of callers are not taken over: what the audit says must be unique.
    genReqId: () => randomUUID(),
    requestIdHeader: false,
    // Only these proxies are trusted to name the caller: anyone could write anything into the header.
    ...(trustProxy !== null && { trustProxy: [...trustProxy] }),
    bodyLimit: limits.bodyBytes,
    requestTimeout: limits.requestMs,
    connectionTimeout: limits.idleMs,
    keepAliveTimeout: limits.keepAliveMs,
    handlerTimeout: limits.handlerMs,
    exposeHeadRoutes: false,
    // Requests under way are finished, also those that come on a connection that was already open; connections that wait
    // for nothing are closed.
    return503OnClosing: false,
    forceCloseConnections: 'idle',
    routerOptions: { maxParamLength: MAX_PARAM, caseSensitive: true, ignoreTrailingSlash: false },
    frameworkErrors: (error, request, reply) => {
      // No hook has run.
      reply.headers(SECURITY_HEADERS)
      sendProblem(error, request, reply)
    },
    clientErrorHandler: refuseConnection,
    http: {
      maxHeaderSize: MAX_HEADER_BYTES,
      headersTimeout: limits.headersMs,
      connectionsCheckingInterval: limits.checkEveryMs,
      requireHostHeader: false,
    },
  }).withTypeProvider<TypeBoxTypeProvider>()
  server.server.maxConnections = limits.connections
  server.server.on('checkExpectation', refuseExpectation)
  server.setValidatorCompiler(compileValidator)

  registerRequestLog(server)
  registerSecurityHeaders(server)
  requireHost(server)
  server.addHook('onSend', async (_request, reply) => {
    // Whoever asks again must ask another server.
    if (parts.draining()) reply.header('connection', 'close')
  })
  registerProblems(server, parts)
  registerJsonBody(server)
  registerReplayed(server)
  registerReason(server)
  refuseIdempotency(server)
  refuseBody(server)
  const identification = registerAccess(server, parts)
  registerCallerShares(server, limits.perKey)
  const page = new DashboardPage()
  registerNotFound(server, page)
  await registerOpenApi(server, parts)

  dashboardRoutes(server, page)
  healthRoutes(server, parts)
  const metrics = new Metrics(parts)
  metricsRoutes(server, metrics)
  server.addHook('onClose', () => metrics.close())
  await server.register(
    async (api) => {
      registerApi(api as unknown as Server, parts, identification)
    },
    { prefix: '/api/v1' },
  )
  await registerReference(server)
  await server.ready()
  refuseEarly(server, parts, identification, metrics)
  return server
}

/** The routes under `/api/v1`, one line a room. */
function registerApi(api: Server, parts: ServerParts, identification: Identification): void {
  sessionRoutes(api, parts, identification)
  keyRoutes(api, parts)
  roleRoutes(api, parts)
  auditRoutes(api, parts)
  submitRoutes(api, parts)
  taskRoutes(api, parts)
  resultRoutes(api, parts)
  jobListRoutes(api, parts)
  bulkActionRoutes(api, parts)
  jobRoutes(api, parts)
  errorRoutes(api, parts)
  waterfallRoutes(api, parts)
  jobWhyRoutes(api, parts)
  jobStreamRoutes(api, parts)
  jobActionRoutes(api, parts)
  laneRoutes(api, parts)
  admissionRoutes(api, parts)
  budgetRoutes(api, parts)
  fleetRoutes(api, parts)
  scheduleRoutes(api, parts)
  adminWorkerRoutes(api, parts)
  liveRoutes(api, parts)
  recoveryRoutes(api, parts)
  workerProtocolRoutes(api, parts)
}
