import { GraphBody } from '../../api/graph.ts'
import { JobParams } from '../../api/jobs.ts'
import { type GraphNode, loadGraph } from '../../engine/graph-view.ts'
import { orNull } from '../job-bodies.ts'
import type { Server, ServerParts } from '../parts.ts'
import { visibleJob } from '../visible-job.ts'

/** `/jobs/:id/graph`: a workflow or group as it is drawn. */
export function graphRoutes(server: Server, { room }: ServerParts): void {
  const { calls } = room
  server.get(
    '/jobs/:id/graph',
    {
      config: { access: 'jobs:read' },
      schema: {
        summary: 'The steps of a workflow or group, what each needs, and the jobs they have become',
        tags: ['jobs'],
        params: JobParams,
        response: { 200: GraphBody },
      },
    },
    async (request) => {
      const { id } = request.params
      await visibleJob(calls, request, id)
      const { job, path, steps } = await loadGraph(calls, id)
      return {
        job: toNodeBody(job),
        path: [...path],
        steps: steps.map(({ job: own, ...step }) => ({
          ...step,
          needs: [...step.needs],
          ...(own !== undefined && { job: toNodeBody(own) }),
        })),
      }
    },
  )
}

function toNodeBody({ counts, ...node }: GraphNode) {
  return {
    ...node,
    readyAt: orNull(node.readyAt),
    startedAt: orNull(node.startedAt),
    finishedAt: orNull(node.finishedAt),
    ...(counts !== undefined && { counts }),
  }
}
