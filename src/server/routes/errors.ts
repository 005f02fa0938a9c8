import { ErrorGroupsBody, ErrorGroupsQuery } from '../../api/errors.ts'
import { readErrorGroups } from '../../engine/views/error-groups.ts'
import { ownerSeen } from '../callers/visible-job.ts'
import { LARGE_SHARE } from '../limits/caller-shares.ts'
import type { Server, ServerParts } from '../parts.ts'

/** `/errors`: failures, grouped by similar errors. */
export function errorRoutes(server: Server, parts: ServerParts): void {
  server.get(
    '/errors',
    {
      config: { access: 'jobs:read', share: LARGE_SHARE },
      schema: {
        summary: 'Failures, grouped by similar errors',
        description:
          'Your own jobs, or all jobs if you may read them. Children count where they are the cause. The fingerprint of a group is a filter for job lists and for the retry action.',
        tags: ['jobs'],
        querystring: ErrorGroupsQuery,
        response: { 200: ErrorGroupsBody },
      },
    },
    async (request) => {
      const { since, task, limit = 50 } = request.query
      const { groups, looked, complete } = await readErrorGroups(parts.services.calls, {
        since: since === undefined ? undefined : new Date(since),
        task,
        owner: ownerSeen(request),
        limit,
      })
      return {
        groups: groups.map((group) => ({
          ...group,
          tasks: [...group.tasks],
          firstAt: group.firstAt.toISOString(),
          lastAt: group.lastAt.toISOString(),
        })),
        looked,
        complete,
      }
    },
  )
}
