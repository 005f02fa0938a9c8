import type { Metrics } from '../metrics/metrics.ts'
import type { Server } from '../parts.ts'

/** `/metrics`, for Prometheus: open to this machine, otherwise with `workers:view`. Every response of the server is counted. */
export function metricsRoutes(server: Server, metrics: Metrics): void {
  server.addHook('onResponse', async (request, reply) => {
    // Labelled with the pattern of the route: addresses contain ids, and clients could invent any number of them.
    const route = request.is404 ? 'unknown' : (request.routeOptions.url ?? 'unknown')
    metrics.observe(request.method, route, reply.statusCode, reply.elapsedTime / 1000)
  })
  server.get(
    '/metrics',
    {
      config: { access: 'metrics' },
      schema: { summary: 'Metrics in the Prometheus text format', tags: ['server'] },
    },
    async (_request, reply) => reply.type(metrics.contentType).send(await metrics.text()),
  )
}
