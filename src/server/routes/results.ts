import { EnsureBody, PendingBody, ResultBody, ResultParams } from '../../api/results.ts'
import { type Ensured, ensureResult, findEnsured } from '../../engine/submit/ensure-result.ts'
import { toStorableJson } from '../../model/json.ts'
import { submissionAuthor, submissionOf } from '../callers/submissions.ts'
import { hiddenJobs, ownerSeen } from '../callers/visible-job.ts'
import { RESULT_SHARE } from '../limits/caller-shares.ts'
import { recordingRefusals } from '../limits/refusals.ts'
import type { Server, ServerParts } from '../parts.ts'

/** `/results/:name/:key`: a stored result, or the one active job that computes it. */
export function resultRoutes(server: Server, parts: ServerParts): void {
  const { services } = parts
  const tags = ['results']
  const response = { 200: ResultBody, 202: PendingBody }

  server.put(
    '/results/:name/:key',
    {
      config: { access: 'jobs:submit', share: RESULT_SHARE },
      schema: {
        summary: 'Get the result of a task or workflow for an input, and submit a job if there is none',
        description:
          '200 with the stored result of an equal input; otherwise 202 with the active job, or with a new one. 409 while a job with a different input is active. 429 only if a new job would be needed. Repeat the request until it returns 200.',
        tags,
        params: ResultParams,
        body: EnsureBody,
        response,
      },
    },
    async (request, reply) => {
      const { name, key } = request.params
      const { input = null } = request.body ?? {}
      const json = toStorableJson(input, 'input')
      const author = submissionAuthor(request)
      const submission = await submissionOf(services, request, name, input, { key }, author)
      const wanted = { name, key, owner: ownerSeen(request), caller: request.caller.name }
      const { submitter, gate } = services
      const found = await recordingRefusals(parts, request, { action: 'job.submit' }, () =>
        ensureResult(services.db, wanted, json, submission, { submitter, gate }),
      )
      if (!found.done && found.attached) {
        const { jobId, attached } = found
        const hidden = await hiddenJobs(services.calls, request, [jobId])
        if (hidden.has(jobId)) return reply.code(202).send({ jobId, attached, readable: false })
      }
      return reply
        .code(found.done ? 200 : 202)
        .headers(locationOf(found))
        .send(bodyOf(found))
    },
  )

  server.get(
    '/results/:name/:key',
    {
      config: { access: 'jobs:read', share: RESULT_SHARE },
      schema: {
        summary: 'Get a result, without submitting a job',
        description: '200 with the newest result, 202 while a job is active, 404 if there is neither.',
        tags,
        params: ResultParams,
        response,
      },
    },
    async (request, reply) => {
      const found = await findEnsured(services.calls, {
        ...request.params,
        owner: ownerSeen(request),
        caller: request.caller.name,
      })
      return reply
        .code(found.done ? 200 : 202)
        .headers(locationOf(found))
        .send(bodyOf(found))
    },
  )
}

function locationOf({ jobId }: Ensured) {
  return { location: `/api/v1/jobs/${jobId}` }
}

function bodyOf(found: Ensured) {
  return found.done
    ? { jobId: found.jobId, result: found.result ?? null }
    : { jobId: found.jobId, attached: found.attached }
}
