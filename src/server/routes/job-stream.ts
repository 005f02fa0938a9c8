import { randomUUID } from 'node:crypto'
import type { FastifyRequest } from 'fastify'
import { StreamHeaders, StreamQuery } from '../../api/job-stream.ts'
import { JobParams } from '../../api/jobs.ts'
import { JobEvents } from '../../engine/job-events.ts'
import { invalidArgument } from '../../model/argument.ts'
import { readPosition, START, type StreamPosition } from '../../model/stream-position.ts'
import { identifyAgain } from '../identify-again.ts'
import type { Server, ServerParts } from '../parts.ts'
import { readSessionCookie } from '../session-cookie.ts'
import { OpenStreams, type Right, STREAM_LIMITS, type StreamLimits } from '../stream/open-streams.ts'
import { isOwn, visibleJob } from '../visible-job.ts'

/** `/jobs/:id/stream`: what happens to a job, as it happens. */
export function jobStreamRoutes(
  server: Server,
  parts: ServerParts,
  limits: StreamLimits = STREAM_LIMITS,
): OpenStreams {
  const { db, calls, listener } = parts.room
  const streams = new OpenStreams(new JobEvents(db, listener, randomUUID(), parts.log), parts.log, limits)
  server.addHook('preClose', () => streams.close())

  server.get(
    '/jobs/:id/stream',
    {
      config: { access: 'jobs:read' },
      schema: {
        summary: 'States, progress and log lines of a job or a tree, as server-sent events',
        description:
          'Events: state, progress, log, and end with the final status, after which the stream is closed. A client that comes back with Last-Event-ID goes on without a gap or a repeat, at any server; after end it gets 204.',
        tags: ['jobs'],
        params: JobParams,
        querystring: StreamQuery,
        headers: StreamHeaders,
        produces: ['text/event-stream'],
      },
    },
    async (request, reply) => {
      const { id } = request.params
      const { tree = false, logs = true } = request.query
      const job = await visibleJob(calls, request, id)
      const position = positionOf(request.headers['last-event-id'] ?? request.query.lastEventId)
      if (position.ended) return reply.code(204).send()
      reply.hijack()
      // Streams are silent for longer than requests may be; heartbeats find out who has gone.
      request.raw.socket.setTimeout(0)
      for (const [name, value] of Object.entries(reply.getHeaders()))
        reply.raw.setHeader(name, value as string)
      streams.open(reply.raw, id, { tree, logs, position }, rightOf(parts, request, isOwn(request, job)))
    },
  )
  return streams
}

function positionOf(text: string | undefined): StreamPosition {
  if (text === undefined || text === '') return START
  const position = readPosition(text)
  if (position === undefined)
    throw invalidArgument('Last-Event-ID', text, 'the id of an event of this stream, as it was')
  return position
}

/** The credential as it is now: revoked, expired and changed roles count while a stream lasts. */
function rightOf(parts: ServerParts, request: FastifyRequest, own: boolean): Right {
  const { calls } = parts.room
  const { authorization } = request.headers
  const token = authorization?.replace(/^Bearer +/i, '') ?? readSessionCookie(request) ?? ''
  return {
    name: `${own ? 'own' : 'all'} ${token}`,
    async refused() {
      const caller = await identifyAgain(calls, request)
      if (caller === undefined) return 'UNAUTHENTICATED'
      return caller.may(own ? 'jobs:read' : 'jobs:read:all') ? undefined : 'FORBIDDEN'
    },
  }
}
