import type { Metrics } from '../metrics/metrics.ts'
import type { Server } from '../parts.ts'

/** `/metrics`, for Prometheus: from this machine, or with `workers:view`. Every answer of the server is counted. */
export function metricsRoutes(server: Server, metrics: Metrics): void {
  server.addHook('onResponse', async (request, reply) => {
    // By the route's pattern: an address has ids in it, and strangers could make up any number of them.
    const route = request.is404 ? 'unknown' : (request.routeOptions.url ?? 'unknown')
    metrics.observe(request.method, route, reply.statusCode, reply.elapsedTime / 1000)
  })
  server.get(
    '/metrics',
    {
      config: { access: 'metrics' },
      schema: { summary: 'Metrics in the text format of Prometheus', tags: ['server'] },
    },
    async (_request, reply) => reply.type(metrics.contentType).send(await metrics.text()),
  )
}
