import { Type } from 'typebox'
import { ReadinessProbe } from '../../engine/views/readiness.ts'
import { lockedTables, sentenceOf } from '../../model/attention.ts'
import { describeLock } from '../../model/held-lock.ts'
import { isLocal } from '../callers/access.ts'
import type { Server, ServerParts } from '../parts.ts'

const Health = Type.Object({ status: Type.Literal('ok'), version: Type.String() })
const Readiness = Type.Object({
  status: Type.Union([Type.Literal('ready'), Type.Literal('not_ready')]),
  checks: Type.Object({
    database: Type.String({ description: '"ok", or what is wrong' }),
    schema: Type.String(),
    draining: Type.Boolean(),
  }),
  findings: Type.Array(
    Type.Object({
      rule: Type.String(),
      severity: Type.String(),
      text: Type.Optional(Type.String({ description: 'For programs on this machine only: it names things' })),
    }),
    { description: 'What needs attention, a few seconds old' },
  ),
})

/**
 * `/healthz`: the process answers. `/readyz`: it can do its work. Both are open.
 *
 * Only what keeps this server from its work makes it 503: a balancer would otherwise take away every server because a lane is paused.
 */
export function healthRoutes(server: Server, parts: ServerParts): void {
  const probe = new ReadinessProbe(parts.connections.probe)

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
        description:
          '503 when the database is not reachable, a lock on its tables keeps the server from its work, its schema is not of this program, or this server is stopping. Other findings never change the status.',
        tags: ['server'],
        response: { 200: Readiness, 503: Readiness },
      },
    },
    async (request, reply) => {
      const askedAt = performance.now()
      const draining = parts.draining()
      const { database, schema, locks } = await probe.look()
      const ready = database === 'ok' && schema === 'ok' && !draining
      // Without its schema there is nothing to read.
      const read = database === 'ok' && schema === 'ok' ? await probe.attention(askedAt) : undefined
      const local = isLocal(request)
      const found = [...lockedTables(locks), ...(read ?? [])]
      const named = database !== 'ok' && locks[0] !== undefined && local
      const findings = found.map((finding) => ({
        rule: finding.rule,
        severity: finding.severity,
        ...(local && { text: sentenceOf(finding) }),
      }))
      return reply.code(ready ? 200 : 503).send({
        status: ready ? 'ready' : 'not_ready',
        checks: { database: named ? describeLock(locks[0]!) : database, schema, draining },
        findings,
      })
    },
  )
}
