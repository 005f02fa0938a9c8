import {
  AttemptsBody,
  JobBody,
  JobParams,
  LogsBody,
  LogsQuery,
  TimelineBody,
  TraceBody,
  TreeBody,
  TreeQuery,
} from '../../api/jobs.ts'
import { readJobLogs } from '../../engine/operate/job-control.ts'
import { readTimeline } from '../../engine/views/job-timeline.ts'
import { trace } from '../../engine/views/trace.ts'
import { loadTree } from '../../engine/views/tree.ts'
import { orNull, toJobBody, toTreeBody } from '../bodies/job-bodies.ts'
import { ownerSeen, visibleJob } from '../callers/visible-job.ts'
import { LARGE_SHARE, RESULT_SHARE } from '../limits/caller-shares.ts'
import type { Server, ServerParts } from '../parts.ts'
import { graphRoutes } from './graph.ts'

const DEFAULT_LINES = 1000

/** `/jobs/:id` and its details. Reads start nothing, and admission limits do not apply to them. */
export function jobRoutes(server: Server, parts: ServerParts): void {
  const { app, services } = parts
  const { calls } = services
  graphRoutes(server, parts)
  const config = { access: 'jobs:read' } as const
  const tags = ['jobs']

  server.get(
    '/jobs/:id',
    {
      config: { ...config, share: RESULT_SHARE },
      schema: { summary: 'A job with all details', tags, params: JobParams, response: { 200: JobBody } },
    },
    async (request) => toJobBody(await visibleJob(calls, request, request.params.id)),
  )

  server.get(
    '/jobs/:id/tree',
    {
      config: { ...config, share: LARGE_SHARE },
      schema: {
        summary: 'A job with all jobs below it; wide fan-outs are collapsed',
        tags,
        params: JobParams,
        querystring: TreeQuery,
        response: { 200: TreeBody },
      },
    },
    async (request) => {
      const { id } = request.params
      await visibleJob(calls, request, id)
      return toTreeBody(await loadTree(calls, id, request.query))
    },
  )

  server.get(
    '/jobs/:id/trace',
    {
      config: { ...config, share: LARGE_SHARE },
      schema: {
        summary:
          'The path from a failure to the root, with the differences between its inputs and those of successful jobs',
        tags,
        params: JobParams,
        response: { 200: TraceBody },
      },
    },
    async (request) => {
      const { id } = request.params
      await visibleJob(calls, request, id)
      const owner = ownerSeen(request)
      const { levels, ...rest } = await trace(calls, id, owner === undefined ? {} : { owner })
      return {
        ...rest,
        levels: levels.map(({ startedAt, finishedAt, ...level }) => ({
          ...(level as object),
          startedAt: orNull(startedAt),
          finishedAt: orNull(finishedAt),
        })) as never,
      }
    },
  )

  server.get(
    '/jobs/:id/timeline',
    {
      config: { ...config, share: LARGE_SHARE },
      schema: {
        summary: 'The history of a job in chronological order: states, attempts, workers',
        tags,
        params: JobParams,
        response: { 200: TimelineBody },
      },
    },
    async (request) => {
      const { id } = request.params
      await visibleJob(calls, request, id)
      const entries = await readTimeline(calls, id)
      return { entries: entries.map((entry) => ({ ...entry, at: orNull(entry.at) })) }
    },
  )

  server.get(
    '/jobs/:id/attempts',
    {
      config: { ...config, share: RESULT_SHARE },
      schema: { summary: 'The attempts of a job', tags, params: JobParams, response: { 200: AttemptsBody } },
    },
    async (request) => {
      const { id } = request.params
      await visibleJob(calls, request, id)
      const attempts = await app.listAttempts(id)
      return {
        attempts: attempts.map((each) => ({
          ...each,
          startedAt: orNull(each.startedAt),
          endedAt: orNull(each.endedAt),
        })),
      }
    },
  )

  server.get(
    '/jobs/:id/logs',
    {
      config: { ...config, share: RESULT_SHARE },
      schema: {
        summary: 'The log lines of a job, oldest first',
        tags,
        params: JobParams,
        querystring: LogsQuery,
        response: { 200: LogsBody },
      },
    },
    async (request) => {
      const { id } = request.params
      const { after = '0', limit = DEFAULT_LINES } = request.query
      await visibleJob(calls, request, id)
      const lines = await readJobLogs(calls, id, after, limit)
      return {
        lines: lines.map((line) => ({ ...line, at: line.at.toISOString() })),
        next: lines.length < limit ? null : lines.at(-1)!.id,
      }
    },
  )
}
