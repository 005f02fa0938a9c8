import { type AuditEntryBody, AuditList, AuditQuery } from '../../api/audit.ts'
import { readAudit } from '../../engine/access/audit-list.ts'
import type { AuditView } from '../../store/list-audit.ts'
import { LARGE_SHARE } from '../limits/caller-shares.ts'
import type { Server, ServerParts } from '../parts.ts'

/** `/audit`: the recorded actions and rejected requests, with their actors. */
export function auditRoutes(server: Server, parts: ServerParts): void {
  server.get(
    '/audit',
    {
      config: { access: 'access:manage', share: LARGE_SHARE },
      schema: {
        summary: 'The audit log, newest first',
        description: 'Entries are kept as long as finished jobs (`retention`).',
        tags: ['access'],
        querystring: AuditQuery,
        response: { 200: AuditList },
      },
    },
    async (request) => {
      const { before, limit, since, until, ...filter } = request.query
      const times = {
        ...(since !== undefined && { since: new Date(since) }),
        ...(until !== undefined && { until: new Date(until) }),
      }
      const page = await readAudit(parts.services.calls, { ...filter, ...times }, { before, limit })
      return { entries: page.entries.map(toBody), next: page.next }
    },
  )
}

function toBody(entry: AuditView): AuditEntryBody {
  return { ...entry, at: entry.at.toISOString() }
}
