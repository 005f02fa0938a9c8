import { randomUUID } from 'node:crypto'
import { StreamHeaders, StreamQuery } from '../../api/job-stream.ts'
import { JobParams } from '../../api/jobs.ts'
import { JobEvents } from '../../engine/streams/job-events.ts'
import { invalidArgument } from '../../model/argument.ts'
import { readPosition, START, type StreamPosition } from '../../model/stream-position.ts'
import { isOwn, visibleJob } from '../callers/visible-job.ts'
import type { Server, ServerParts } from '../parts.ts'
import { beginStream, rightOf } from '../stream/begin-stream.ts'
import { OpenStreams, STREAM_LIMITS, type StreamLimits } from '../stream/open-streams.ts'

/** `/jobs/:id/stream`: the events of a job as they happen. */
export function jobStreamRoutes(
  server: Server,
  parts: ServerParts,
  limits: StreamLimits = STREAM_LIMITS,
): OpenStreams {
  const { db, calls, listener } = parts.services
  const events = new JobEvents(db, listener, randomUUID(), parts.log)
  const streams = new OpenStreams(events, parts.log, limits)
  server.addHook('preClose', () => streams.close())

  server.get(
    '/jobs/:id/stream',
    {
      config: { access: 'jobs:read', share: 0 },
      schema: {
        summary: 'States, progress and log lines of a job or a tree, as server-sent events',
        description:
          'Events: state, progress and log, then end with the final status, after which the server closes the stream. A client that reconnects with Last-Event-ID, to any server, resumes without gaps or repeats; after end it gets 204.',
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
      const right = rightOf(parts.connections.keys, request, [
        isOwn(request, job) ? 'jobs:read' : 'jobs:read:all',
      ])
      const options = { tree, logs, position }
      streams.checkRoom(request.caller.keyId)
      streams.open(beginStream(request, reply), right, (sink) => events.open(id, options, sink))
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
