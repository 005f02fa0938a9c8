import { pathOf } from '../limits/refusals.ts'
import type { Server } from '../parts.ts'

/**
 * One line per answer, with the id that the answer, the audit and the errors carry too. Headers, queries and bodies are
 * not in it: that is where secrets are.
 */
export function registerRequestLog(server: Server): void {
  server.addHook('onRequest', async (request, reply) => {
    reply.header('x-request-id', request.id)
  })
  server.addHook('onResponse', async (request, reply) => {
    const { statusCode, elapsedTime } = reply
    const level = statusCode >= 500 ? 'warn' : isQuiet(request.routeOptions.url) ? 'debug' : 'info'
    request.log[level](
      {
        method: request.method,
        path: pathOf(request),
        status: statusCode,
        ms: Math.round(elapsedTime * 10) / 10,
        by: request.caller?.name,
      },
      'answered',
    )
  })
  server.addHook('onRequestAbort', async (request) => {
    request.log.debug({ method: request.method, path: pathOf(request) }, 'the client went away')
  })
}

/** Asked every few seconds by machines. */
function isQuiet(route: string | undefined): boolean {
  return route === '/healthz' || route === '/readyz' || route === '/metrics'
}
