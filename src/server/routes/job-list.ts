import { JobListBody, ListQuery } from '../../api/job-list.ts'
import { type JobCriteria, readLine, readPage, toCursor } from '../../engine/views/job-list.ts'
import { invalidArgument } from '../../model/argument.ts'
import type { JobStatus } from '../../model/job.ts'
import { toSummaryBody } from '../bodies/job-bodies.ts'
import { ownerSeen } from '../callers/visible-job.ts'
import { LARGE_SHARE } from '../limits/caller-shares.ts'
import type { Server, ServerParts } from '../parts.ts'

const DEFAULT_PAGE = 50

/** `/jobs`: lists of jobs, by a filter. */
export function jobListRoutes(server: Server, parts: ServerParts): void {
  server.get(
    '/jobs',
    {
      config: { access: 'jobs:read', share: LARGE_SHARE },
      schema: {
        summary: 'Jobs that match a filter',
        description:
          'Your own jobs, or all jobs if you may read them. Newest first, unless order or fingerprint says otherwise.',
        tags: ['jobs'],
        querystring: ListQuery,
        response: { 200: JobListBody },
      },
    },
    async (request) => {
      const { cursor, before, limit = DEFAULT_PAGE, status, order, ...fields } = request.query
      if (cursor !== undefined && before !== undefined)
        throw invalidArgument('before', before, 'left out: a cursor says where the page begins')
      const criteria: JobCriteria = {
        ...fields,
        ...(status !== undefined && { status: status.split(',') as JobStatus[] }),
      }
      const own = onlyOf(criteria, ownerSeen(request))
      if (own === undefined) return { jobs: [], next: null }
      if (order === 'line' && before !== undefined)
        throw invalidArgument('before', before, 'left out: order=line goes on from a cursor')
      const from = before === undefined ? cursor : toCursor(before)
      const read = order === 'line' ? readLine : readPage
      const page = await read(parts.services.calls, own, from, limit)
      return { jobs: page.jobs.map(toSummaryBody), next: page.next }
    },
  )
}

/** Restricts a search to the jobs of the owner that the caller may see; `undefined` if none can match. */
export function onlyOf(criteria: JobCriteria, owner: string | undefined): JobCriteria | undefined {
  if (owner === undefined) return criteria
  const { submittedBy = owner } = criteria
  return submittedBy === owner ? { ...criteria, submittedBy } : undefined
}
