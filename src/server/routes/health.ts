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
    database: Type.String({ description: '"ok", or a description of the problem' }),
    schema: Type.String(),
    draining: Type.Boolean(),
  }),
  findings: Type.Array(
    Type.Object({
      rule: Type.String(),
      severity: Type.String(),
      text: Type.Optional(
        Type.String({ description: 'Only for requests from this machine, because it contains names' }),
      ),
    }),
    { description: 'Problems that need attention, as of a few seconds ago' },
  ),
})

/**
 * `/healthz`: the process responds. `/readyz`: it can do its work. Neither needs a key.
 *
 * `/readyz` returns 503 only for problems of this server. Otherwise a load balancer would remove every server because a lane is paused.
 */
export function healthRoutes(server: Server, parts: ServerParts): void {
  const probe = new ReadinessProbe(parts.connections.probe)

  server.get(
    '/healthz',
    {
      config: { access: 'public' },
      exposeHeadRoute: true,
      schema: { summary: 'Whether the process responds', tags: ['server'], response: { 200: Health } },
    },
    async () => ({ status: 'ok' as const, version: parts.version }),
  )

  server.get(
    '/readyz',
    {
      config: { access: 'public' },
      exposeHeadRoute: true,
      schema: {
        summary: 'Whether the server is ready',
        description:
          '503 if the database is unreachable, a lock on its tables blocks the server, its schema does not match this version, or this server is stopping. Other findings never change the status.',
        tags: ['server'],
        response: { 200: Readiness, 503: Readiness },
      },
    },
    async (request, reply) => {
      const askedAt = performance.now()
      const draining = parts.draining()
      const { database, schema, locks } = await probe.look()
      const ready = database === 'ok' && schema === 'ok' && !draining
      // The findings come from tables that a database without the schema does not have.
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
