import { ErrorGroupsBody, ErrorGroupsQuery } from '../../api/errors.ts'
import { readErrorGroups } from '../../engine/views/error-groups.ts'
import { ownerSeen } from '../callers/visible-job.ts'
import { LARGE_SHARE } from '../limits/caller-shares.ts'
import type { Server, ServerParts } from '../parts.ts'

/** `/errors`: failures by what their errors have in common. */
export function errorRoutes(server: Server, parts: ServerParts): void {
  server.get(
    '/errors',
    {
      config: { access: 'jobs:read', share: LARGE_SHARE },
      schema: {
        summary: 'Failures by what their errors have in common',
        description:
          'Your own jobs, or all jobs if you may read them. Children are counted where they are the cause. The fingerprint of a group is a filter of lists and of the action retry.',
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
