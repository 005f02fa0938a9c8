import { RecoveryBody, RecoveryQuery } from '../../api/recovery.ts'
import { readRecoveries } from '../../engine/views/recoveries.ts'
import type { Server, ServerParts } from '../parts.ts'

/** `/admin/recovery`: the recoveries and repairs of the engine. */
export function recoveryRoutes(server: Server, parts: ServerParts): void {
  server.get(
    '/admin/recovery',
    {
      config: { access: 'workers:view' },
      schema: {
        summary: 'Recovered jobs, rejected late writes, and repairs by the reconciler',
        tags: ['live'],
        querystring: RecoveryQuery,
        response: { 200: RecoveryBody },
      },
    },
    async ({ query: { limit = 50, ...rest } }) => {
      const { events, ...answer } = await readRecoveries(parts.services.calls, { ...rest, limit })
      return {
        ...answer,
        events: events.map((event) => ({
          ...event,
          at: event.at.toISOString(),
          jobIds: [...event.jobIds],
        })),
      }
    },
  )
}
