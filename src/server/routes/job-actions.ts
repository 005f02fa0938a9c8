import type { FastifyRequest } from 'fastify'
import {
  ApproveBody,
  CancelQuery,
  ChangedJobBody,
  IdempotencyHeaders,
  JobParams,
  RejectBody,
  RemovedJobBody,
  type RemovedJobBody as RemovedJobJson,
  RetriedBody,
  RetryBody,
  WindowBody,
  WindowChangeBody,
} from '../../api/jobs.ts'
import type { Queryable } from '../../db/database.ts'
import { audit } from '../../engine/access/audit.ts'
import * as jobControl from '../../engine/operate/job-control.ts'
import { retryFacts } from '../../engine/operate/retry-facts.ts'
import { planRetry, type Retried, retry } from '../../engine/operate/retry-tree.ts'
import { resizeWindow, resumeWindow } from '../../engine/operate/window-control.ts'
import { SluiceError } from '../../errors.ts'
import { invalidArgument } from '../../model/argument.ts'
import { isFinal, statusOf } from '../../model/job.ts'
import { ADMIN_ROLE } from '../../model/permissions.ts'
import type { JobView } from '../../store/find-jobs.ts'
import { checkLaneOf } from '../callers/lane-choice.ts'
import { isOwn, ownJob, visibleJob } from '../callers/visible-job.ts'
import { carryOut, change } from '../change.ts'
import type { Server, ServerParts } from '../parts.ts'

/** The actions on a job that its owner and its approvers may perform. */
export function jobActionRoutes(server: Server, parts: ServerParts): void {
  const tags = ['jobs']

  server.delete(
    '/jobs/:id',
    {
      config: { access: 'jobs:cancel' },
      schema: {
        summary: 'Cancel a job and all jobs below it; delete it if it has ended',
        description:
          '200 if the job has ended or is deleted, 202 while it is being cancelled. only=cancel rejects a job that has ended; only=delete rejects one that has not.',
        tags,
        params: JobParams,
        headers: IdempotencyHeaders,
        querystring: CancelQuery,
        response: { 200: RemovedJobBody, 202: RemovedJobBody },
      },
    },
    async (request, reply) => {
      const { id } = request.params
      const { reason = `by ${request.caller.name}`, only } = request.query
      const done = await cancelOrDelete(parts, request, id, reason, only)
      return reply.code(done.deleted || done.status === 'cancelled' ? 200 : 202).send(done)
    },
  )

  server.post(
    '/jobs/:id/approve',
    {
      config: { access: 'jobs:approve' },
      schema: {
        summary: 'Approve a job that awaits approval; you cannot approve your own',
        tags,
        params: JobParams,
        headers: IdempotencyHeaders,
        body: ApproveBody,
        response: { 200: ChangedJobBody },
      },
    },
    async (request) => {
      const { id } = request.params
      const what = { action: 'job.approve', target: `job ${id}`, once: true }
      return change(parts, request, what, async (tx) => {
        const seen = await judgedJob(tx, request, id)
        await jobControl.approve(tx, id, request.caller.name)
        return judged(seen, await jobControl.getJob(tx, id), request.body?.comment)
      })
    },
  )

  server.post(
    '/jobs/:id/reject',
    {
      config: { access: 'jobs:approve' },
      schema: {
        summary: 'Reject a job that awaits approval, which cancels it; you cannot reject your own',
        tags,
        params: JobParams,
        headers: IdempotencyHeaders,
        body: RejectBody,
        response: { 200: ChangedJobBody },
      },
    },
    async (request) => {
      const { id } = request.params
      const what = { action: 'job.reject', target: `job ${id}`, once: true }
      return change(parts, request, what, async (tx) => {
        const seen = await judgedJob(tx, request, id)
        await jobControl.reject(tx, id, request.body.comment, request.caller.name)
        return judged(seen, await jobControl.getJob(tx, id), request.body.comment)
      })
    },
  )

  server.post(
    '/jobs/:id/retry',
    {
      config: { access: 'jobs:submit' },
      schema: {
        summary:
          'Run a finished job again, or the failed jobs or a step of a workflow and all that depends on them',
        tags,
        params: JobParams,
        headers: IdempotencyHeaders,
        body: RetryBody,
        response: { 200: RetriedBody, 202: RetriedBody },
      },
    },
    async (request, reply) => {
      const { id } = request.params
      const { dryRun = false, ...options } = request.body ?? {}
      if (dryRun) {
        await ownJob(parts.services.calls, request, id)
        return reply.code(200).send(toBody(await planRetry(parts.services.db, id, options)))
      }
      const retried = await change(
        parts,
        request,
        { action: 'job.retry', target: `job ${id}`, once: true },
        async (tx) => {
          const job = await ownJob(tx, request, id)
          if (job.laneChosen) await checkLaneOf(tx, request.caller, job.task, job.lane)
          const result = await retry(tx, id, options, request.caller.name)
          return { result, before: { status: job.status }, after: retryFacts(result, options) }
        },
      )
      return reply.code(202).header('location', `/api/v1/jobs/${retried.root}`).send(toBody(retried))
    },
  )

  server.patch(
    '/jobs/:id/window',
    {
      config: { access: 'jobs:cancel' },
      schema: {
        summary: 'Change how many children of a running fan-out may be in flight; 0 pauses it',
        tags,
        params: JobParams,
        body: WindowBody,
        response: { 200: WindowChangeBody },
      },
    },
    async (request) => {
      const { id } = request.params
      const { concurrency, resume } = request.body
      if ((concurrency === undefined) === (resume !== true))
        throw invalidArgument(
          'concurrency',
          concurrency,
          'a whole number of at least 0, or resume: true in its place',
        )
      return change(parts, request, { action: 'job.window', target: `job ${id}` }, async (tx) => {
        await ownJob(tx, request, id)
        const result = await (resume === true ? resumeWindow(tx, id) : resizeWindow(tx, id, concurrency!))
        return { result, before: { concurrency: result.before }, after: { concurrency: result.after } }
      })
    },
  )
}

function toBody(retried: Retried): RetriedBody {
  return { ...retried, refused: [...retried.refused] }
}

/** With an `Idempotency-Key`, a repeated cancel does not delete the job that the first request cancelled. */
async function cancelOrDelete(
  parts: ServerParts,
  request: FastifyRequest,
  id: string,
  reason: string,
  only: 'cancel' | 'delete' | undefined,
): Promise<RemovedJobJson> {
  const { caller, id: requestId, reason: why } = request
  const target = `job ${id}`
  return carryOut<RemovedJobJson>(
    parts,
    request,
    { action: only === 'delete' ? 'job.delete' : 'job.cancel', target, once: true },
    async (tx) => {
      const { state, status } = await ownJob(tx, request, id)
      const author = { actor: caller.name, keyId: caller.keyId, requestId, reason: why }
      const entry = { ...author, target, before: { status } }
      // If `only` does not fit the state, the call below throws an error that names the state.
      if (only === undefined ? isFinal(state) : only === 'delete') {
        await jobControl.remove(tx, id)
        await audit(tx, { ...entry, action: 'job.delete' })
        return { id, deleted: true }
      }
      const after = await jobControl.cancel(tx, id, reason)
      await audit(tx, { ...entry, action: 'job.cancel', after: jobControl.cancelFacts(after, reason) })
      return { id, deleted: false, status: statusOf(after) }
    },
  )
}

/** The job, if the caller may approve or reject it. Only platform admins may do so for a job whose input they chose themselves. */
async function judgedJob(
  tx: Queryable,
  request: FastifyRequest,
  id: string,
): Promise<{ readonly job: JobView; readonly own: boolean }> {
  const job = await visibleJob(tx, request, id)
  const own = isOwn(request, job) || (await jobControl.isChosenBy(tx, id, request.caller.name))
  if (own && request.caller.role !== ADMIN_ROLE) {
    const why = isOwn(request, job) ? 'is your own' : 'runs with an input that you chose'
    throw new SluiceError('FORBIDDEN', `job ${id} ${why}: another person must decide about it`, {
      details: { jobId: id },
    })
  }
  return { job, own }
}

function judged(
  { job, own }: { readonly job: JobView; readonly own: boolean },
  after: JobView,
  comment: string | undefined,
) {
  return {
    result: { id: after.id, status: after.status },
    before: { status: job.status },
    after: { status: after.status, ...(comment !== undefined && { comment }), ...(own && { own }) },
  }
}
