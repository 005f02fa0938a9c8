import { Type } from 'typebox'
import { ReadinessProbe } from '../../engine/readiness.ts'
import type { Server, ServerParts } from '../parts.ts'

const Health = Type.Object({ status: Type.Literal('ok'), version: Type.String() })
const Readiness = Type.Object({
  status: Type.Union([Type.Literal('ready'), Type.Literal('not_ready')]),
  checks: Type.Object({
    database: Type.String({ description: '"ok", or what is wrong' }),
    schema: Type.String(),
    draining: Type.Boolean(),
  }),
})

/** `/healthz`: the process answers. `/readyz`: it can do its work. Both are open, and tell nothing else. */
export function healthRoutes(server: Server, parts: ServerParts): void {
  const probe = new ReadinessProbe(parts.room.calls)

  server.get(
    '/healthz',
    {
      config: { access: 'public' },
      exposeHeadRoute: true,
      schema: { summary: 'The process answers', tags: ['server'], response: { 200: Health } },
    },
    async () => ({ status: 'ok' as const, version: parts.version }),
  )

  server.get(
    '/readyz',
    {
      config: { access: 'public' },
      exposeHeadRoute: true,
      schema: {
        summary: 'Database reachable, schema right, not stopping',
        tags: ['server'],
        response: { 200: Readiness, 503: Readiness },
      },
    },
    async (_request, reply) => {
      const draining = parts.draining()
      const { database, schema } = await probe.look()
      const ready = database === 'ok' && schema === 'ok' && !draining
      return reply
        .code(ready ? 200 : 503)
        .send({ status: ready ? 'ready' : 'not_ready', checks: { database, schema, draining } })
    },
  )
}
