import type { FastifyRequest } from 'fastify'
import { StreamHeaders } from '../../api/job-stream.ts'
import {
  DeviceHistoryBody,
  DeviceHistoryQuery,
  LiveQuery,
  NowBody,
  SeriesBody,
  SeriesQuery,
} from '../../api/live.ts'
import { LiveFeed, type LiveList } from '../../engine/streams/live-feed.ts'
import { readDeviceHistory } from '../../engine/views/device-history.ts'
import { type JobCriteria, type JobPage, toSearch } from '../../engine/views/job-list.ts'
import { type Now, readNow, readSeries, SERIES_MS } from '../../engine/views/now.ts'
import { invalidArgument } from '../../model/argument.ts'
import type { JobStatus } from '../../model/job.ts'
import { orNull, toSummaryBody } from '../bodies/job-bodies.ts'
import { forbidden } from '../callers/access.ts'
import { ownerSeen } from '../callers/visible-job.ts'
import type { Server, ServerParts } from '../parts.ts'
import { beginStream, rightOf } from '../stream/begin-stream.ts'
import { OpenStreams, STREAM_LIMITS, type StreamLimits } from '../stream/open-streams.ts'
import { onlyOf } from './job-list.ts'

const DEFAULT_PAGE = 50

/** `/live`: the state of the system as it changes; `/admin/series`: its recent history. */
export function liveRoutes(
  server: Server,
  parts: ServerParts,
  limits: StreamLimits = STREAM_LIMITS,
): OpenStreams {
  const { calls, listener } = parts.services
  const feed = new LiveFeed(calls, listener, parts.log, { now: toNowBody, page: toPageBody })
  const streams = new OpenStreams(feed, parts.log, limits)
  server.addHook('preClose', () => streams.close())

  server.get(
    '/live',
    {
      config: { access: ['workers:view', 'jobs:read'], share: 0 },
      schema: {
        summary: 'System status and the first page of a job list, as server-sent events',
        description:
          'Events: now, at most four times a second and at least every 5 s, for callers with workers:view; with jobs=true also jobs, at most once a second, when the page has changed. Every event contains the complete data. With Last-Event-ID, any server skips events with data that the client already has.',
        tags: ['live'],
        querystring: LiveQuery,
        headers: StreamHeaders,
        produces: ['text/event-stream'],
      },
    },
    async (request, reply) => {
      const { now = request.caller.may('workers:view'), jobs = false, lastEventId } = request.query
      if (now && !request.caller.may('workers:view')) throw forbidden(request.caller, ['workers:view'])
      if (jobs && !request.caller.may('jobs:read')) throw forbidden(request.caller, ['jobs:read'])
      if (!now && !jobs)
        throw invalidArgument('jobs', jobs, 'true, because the stream would have no events otherwise')
      const list = jobs ? listOf(request, request.query) : undefined
      const all = request.caller.may('jobs:read:all')
      const right = rightOf(parts.connections.keys, request, [
        ...(now ? (['workers:view'] as const) : []),
        ...(jobs ? ([all ? 'jobs:read:all' : 'jobs:read'] as const) : []),
      ])
      streams.checkRoom(request.caller.keyId)
      const lastId = request.headers['last-event-id'] ?? lastEventId ?? ''
      streams.open(beginStream(request, reply), right, (sink) =>
        feed.open({ now, list, lastId, reader: request.caller.keyId }, sink),
      )
    },
  )

  server.get(
    '/admin/snapshot',
    {
      config: { access: 'workers:view' },
      schema: {
        summary: 'A snapshot of the whole system',
        description: 'The same data as a `now` event of /live.',
        tags: ['live'],
        response: { 200: NowBody },
      },
    },
    async () => toNowBody(await readNow(calls)),
  )

  server.get(
    '/admin/series',
    {
      config: { access: 'workers:view' },
      schema: {
        summary: 'System status over the last minutes',
        description:
          'One point every 10 s while jobs ran or waited, kept for two hours; and the number of jobs that failed in each minute.',
        tags: ['live'],
        querystring: SeriesQuery,
        response: { 200: SeriesBody },
      },
    },
    async ({ query: { minutes = 30 } }) => {
      const { points, failures } = await readSeries(calls, minutes)
      return {
        everyMs: SERIES_MS,
        points: points.map((point) => ({ ...point, at: point.at.toISOString(), lanes: [...point.lanes] })),
        failures: failures.map(({ at, failed }) => ({ at: at.toISOString(), failed })),
      }
    },
  )

  server.get(
    '/admin/devices/history',
    {
      config: { access: 'workers:view' },
      schema: {
        summary: 'Models, jobs and memory use of each device over the last minutes',
        tags: ['live'],
        querystring: DeviceHistoryQuery,
        response: { 200: DeviceHistoryBody },
      },
    },
    async ({ query: { minutes = 30, points } }) => ({
      everyMs: SERIES_MS,
      devices: (await readDeviceHistory(calls, minutes, points)).map((device) => ({
        ...device,
        points: device.points.map((point) => ({ ...point, at: point.at.toISOString() })),
        spans: device.spans.map((span) => ({
          ...span,
          since: span.since.toISOString(),
          until: span.until.toISOString(),
        })),
      })),
    }),
  )
  return streams
}

/** The requested list, restricted to their own jobs for callers who may read only those. */
function listOf(request: FastifyRequest, query: LiveQuery): LiveList {
  const { now: _, jobs: __, lastEventId: ___, limit = DEFAULT_PAGE, status, order, ...fields } = query
  const criteria: JobCriteria = {
    ...fields,
    ...(status !== undefined && { status: status.split(',') as JobStatus[] }),
  }
  const owner = ownerSeen(request)
  const own = onlyOf(criteria, owner)
  // The caller asked for somebody else's jobs, so the list must stay empty.
  const shown = own ?? { submittedBy: owner!, submittedTo: '1970-01-01T00:00:00Z' }
  toSearch(shown)
  if (order === 'line' && criteria.waits !== 'turn')
    throw invalidArgument('order', order, 'left out, or given with waits=turn')
  const shownOrder = own === undefined ? undefined : order
  return { key: JSON.stringify([shown, shownOrder, limit]), criteria: shown, order: shownOrder, limit }
}

function toNowBody(now: Now): NowBody {
  return {
    ...now,
    at: now.at.toISOString(),
    lanes: now.lanes.map((lane) => ({ ...lane, oldestAt: orNull(lane.oldestAt) })),
    devices: now.devices.map((device) => ({
      ...device,
      lostAt: orNull(device.lostAt),
      models: [...device.models],
    })),
    more: [...now.more],
    findings: [...now.findings],
  }
}

function toPageBody({ jobs, next }: JobPage) {
  return { jobs: jobs.map(toSummaryBody), next }
}
