import { WhyBody } from '../../api/job-why.ts'
import { JobParams } from '../../api/jobs.ts'
import { explain } from '../../engine/views/why.ts'
import { orNull } from '../bodies/job-bodies.ts'
import { ownerSeen, visibleJob } from '../callers/visible-job.ts'
import { LARGE_SHARE } from '../limits/caller-shares.ts'
import type { Server, ServerParts } from '../parts.ts'

/** `/jobs/:id/why`: what a job waits for, what holds it, and the estimated wait. */
export function jobWhyRoutes(server: Server, { services }: ServerParts): void {
  server.get(
    '/jobs/:id/why',
    {
      config: { access: 'jobs:read', share: LARGE_SHARE },
      schema: {
        summary: 'Why a job is waiting',
        description:
          'The limit that blocks the job, what holds it, the position in the queue, and an estimate of the wait if there is one.',
        tags: ['jobs'],
        params: JobParams,
        response: { 200: WhyBody },
      },
    },
    async (request) => {
      const { id } = request.params
      await visibleJob(services.calls, request, id)
      const { job, wait, holders, passedOver, words, ...rest } = await explain(services.calls, id, {
        owner: ownerSeen(request),
      })
      return {
        id,
        status: job.status,
        ...rest,
        wait: {
          ...wait,
          until: orNull(wait.until),
          requires: wait.requires && { ...wait.requires },
          budget: wait.budget && {
            ...wait.budget,
            heldBy: [...wait.budget.heldBy],
            until: orNull(wait.budget.until),
          },
        },
        holders: holders.map((holder) => ({ ...holder, since: orNull(holder.since) })),
        deadlineAt: orNull(job.deadlineAt),
        passedOver: passedOver.map((each) => ({ ...each })),
        words: [...words],
      }
    },
  )
}
