import { ChildrenBody, ChildrenQuery, StripBody, StripQuery } from '../../api/fan-out.ts'
import { GraphBody } from '../../api/graph.ts'
import { JobParams } from '../../api/jobs.ts'
import { childrenOf, stripOf } from '../../engine/views/fan-out-view.ts'
import { type GraphNode, loadGraph } from '../../engine/views/graph-view.ts'
import type { JobStatus } from '../../model/job.ts'
import { orNull } from '../bodies/job-bodies.ts'
import { visibleJob } from '../callers/visible-job.ts'
import type { Server, ServerParts } from '../parts.ts'

const DEFAULT_BUCKETS = 100

/** `/jobs/:id/graph`, `/strip` and `/children`: one level of a tree at a time, for drawing it. */
export function graphRoutes(server: Server, { services }: ServerParts): void {
  const { calls } = services
  fanOutRoutes(server, services)
  server.get(
    '/jobs/:id/graph',
    {
      config: { access: 'jobs:read' },
      schema: {
        summary: 'The steps of a workflow or group, with their dependencies and jobs',
        tags: ['jobs'],
        params: JobParams,
        response: { 200: GraphBody },
      },
    },
    async (request) => {
      const { id } = request.params
      const { submittedBy, superseded } = await visibleJob(calls, request, id)
      const { job, path, steps } = await loadGraph(calls, id)
      return {
        job: toNodeBody(job),
        submittedBy,
        superseded,
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

function fanOutRoutes(server: Server, { calls }: ServerParts['services']): void {
  const config = { access: 'jobs:read' } as const
  const tags = ['jobs']

  server.get(
    '/jobs/:id/strip',
    {
      config,
      schema: {
        summary: 'Status counts of a fan-out of any size, for each range of its children',
        tags,
        params: JobParams,
        querystring: StripQuery,
        response: { 200: StripBody },
      },
    },
    async (request) => {
      const { id } = request.params
      await visibleJob(calls, request, id)
      const strip = await stripOf(calls, id, request.query.buckets ?? DEFAULT_BUCKETS)
      return { ...strip, buckets: [...strip.buckets] }
    },
  )

  server.get(
    '/jobs/:id/children',
    {
      config,
      schema: {
        summary: 'The children of a job, from an index on',
        tags,
        params: JobParams,
        querystring: ChildrenQuery,
        response: { 200: ChildrenBody },
      },
    },
    async (request) => {
      const { id } = request.params
      const { status, ...rest } = request.query
      await visibleJob(calls, request, id)
      const { children, next } = await childrenOf(calls, id, {
        ...rest,
        ...(status !== undefined && { status: status.split(',') as JobStatus[] }),
      })
      return { children: children.map(toNodeBody), next }
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
