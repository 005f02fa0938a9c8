import { JobParams } from '../../api/jobs.ts'
import { WaterfallBody } from '../../api/waterfall.ts'
import { readWaterfall } from '../../engine/views/read-waterfall.ts'
import { orNull, toNotReachedBody } from '../bodies/job-bodies.ts'
import { visibleJob } from '../callers/visible-job.ts'
import { LARGE_SHARE } from '../limits/caller-shares.ts'
import type { Server, ServerParts } from '../parts.ts'

/** `/jobs/:id/waterfall`: a tree over time. */
export function waterfallRoutes(server: Server, { services: { calls } }: ServerParts): void {
  server.get(
    '/jobs/:id/waterfall',
    {
      config: { access: 'jobs:read', share: LARGE_SHARE },
      schema: {
        summary: 'A tree as bars over time, with its critical path',
        tags: ['jobs'],
        params: JobParams,
        response: { 200: WaterfallBody },
      },
    },
    async (request) => {
      const { id } = request.params
      await visibleJob(calls, request, id)
      const { since, until, spans, criticalIds } = await readWaterfall(calls, id)
      return {
        since: since.toISOString(),
        until: until.toISOString(),
        spans: spans.map(({ notReached, ...span }) => ({
          ...span,
          ...(notReached !== undefined && { notReached: toNotReachedBody(notReached) }),
          submittedAt: span.submittedAt.toISOString(),
          startedAt: orNull(span.startedAt),
          finishedAt: orNull(span.finishedAt),
          earlier: span.earlier.map(({ startedAt, endedAt, ending }) => ({
            startedAt: startedAt.toISOString(),
            endedAt: endedAt.toISOString(),
            ending,
          })),
        })),
        criticalIds: [...criticalIds],
      }
    },
  )
}
