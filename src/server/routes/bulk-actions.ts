import { type BulkActionBody as Body, BulkActionAnswer, BulkActionBody } from '../../api/job-list.ts'
import { actInBulk, type BulkAction } from '../../engine/operate/bulk-actions.ts'
import { SluiceError } from '../../errors.ts'
import { invalidArgument } from '../../model/argument.ts'
import { PRIORITY_RANGE } from '../../model/limits.ts'
import { ownerSeen } from '../callers/visible-job.ts'
import { LARGE_SHARE } from '../limits/caller-shares.ts'
import type { Server, ServerParts } from '../parts.ts'
import { onlyOf } from './job-list.ts'

/** `/jobs/actions`: one action on all jobs that match a filter. */
export function bulkActionRoutes(server: Server, parts: ServerParts): void {
  const { db, calls } = parts.services
  server.post(
    '/jobs/actions',
    {
      config: { access: 'workers:manage', share: LARGE_SHARE },
      schema: {
        summary: 'Cancel, retry or reprioritise all jobs that match a filter',
        description:
          'With dryRun, the jobs are only counted. A retry works by tree: jobs of one workflow run again together. Jobs are processed from newest to oldest, in batches that are committed separately. After about 20 s the response returns with next if more jobs remain.',
        tags: ['jobs'],
        body: BulkActionBody,
        response: { 200: BulkActionAnswer },
      },
    },
    async (request) => {
      const { filter, dryRun, cursor, all } = request.body
      if (Object.keys(filter).length === 0 && all !== true && dryRun !== true)
        throw new SluiceError(
          'INVALID_ARGUMENT',
          'filter: it is empty and would match every job: add a field, or set all: true',
          { details: { argument: 'filter' } },
        )
      const action = actionOf(request.body, request.caller.name)
      const criteria = onlyOf(filter, ownerSeen(request))
      if (criteria === undefined) return { matched: 0, changed: 0, refused: [], next: null }
      const { name, keyId } = request.caller
      const author = { name, keyId, requestId: request.id, reason: request.reason }
      const answer = await actInBulk(db, calls, action, criteria, author, { dryRun, cursor })
      const { reruns, ...rest } = answer
      return {
        ...rest,
        refused: [...rest.refused],
        ...(reruns !== undefined && { reruns: { ...reruns, workflows: [...reruns.workflows] } }),
      }
    },
  )
}

function actionOf({ action, priority, reason }: Body, caller: string): BulkAction {
  if (priority !== undefined && action !== 'priority')
    throw invalidArgument('priority', priority, 'left out: only the action priority has one')
  if (reason !== undefined && action !== 'cancel')
    throw invalidArgument('reason', reason, 'left out: only the action cancel has one')
  if (action === 'retry') return { action }
  if (action === 'cancel') return { action, reason: reason ?? `by ${caller}` }
  if (priority === undefined)
    throw invalidArgument(
      'priority',
      priority,
      `a whole number from ${PRIORITY_RANGE.min} to ${PRIORITY_RANGE.max}`,
    )
  return { action, priority }
}
