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

/** `/live`: how the system stands, as it changes; and `/admin/series`: how it stood. */
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
        summary: 'How the system stands, and the first page of a list, as server-sent events',
        description:
          'Events: now, at most four a second and at least every 5 s, for callers with workers:view; jobs, with jobs=true, when the page has changed, at most once a second. Each tells the whole of it. Last-Event-ID spares what is known already, at any server.',
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
      if (!now && !jobs) throw invalidArgument('jobs', jobs, 'true: there is nothing else to tell you')
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
        summary: 'The whole system at one time',
        description: 'The same as one `now` event of /live.',
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
        summary: 'How the system stood in the last minutes',
        description:
          'A point every 10 s while something ran or waited, kept for two hours; and how many jobs failed in each minute.',
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
        summary: 'What was on each device in the last minutes: models, jobs, memory',
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

/** What the caller asked to see; nothing of others for those who see only their own. */
function listOf(request: FastifyRequest, query: LiveQuery): LiveList {
  const { now: _, jobs: __, lastEventId: ___, limit = DEFAULT_PAGE, status, order, ...fields } = query
  const criteria: JobCriteria = {
    ...fields,
    ...(status !== undefined && { status: status.split(',') as JobStatus[] }),
  }
  const owner = ownerSeen(request)
  const own = onlyOf(criteria, owner)
  // Somebody else's jobs: a list that stays empty.
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
