import { EnsureBody, PendingBody, ResultBody, ResultParams } from '../../api/results.ts'
import { type Ensured, ensureResult, findEnsured } from '../../engine/submit/ensure-result.ts'
import { toStorableJson } from '../../model/json.ts'
import { submissionAuthor, submissionOf } from '../callers/submissions.ts'
import { hiddenJobs, ownerSeen } from '../callers/visible-job.ts'
import { RESULT_SHARE } from '../limits/caller-shares.ts'
import { recordingRefusals } from '../limits/refusals.ts'
import type { Server, ServerParts } from '../parts.ts'

/** `/results/:name/:key`: a result that is there, or the one job that works on it. */
export function resultRoutes(server: Server, parts: ServerParts): void {
  const { services } = parts
  const tags = ['results']
  const response = { 200: ResultBody, 202: PendingBody }

  server.put(
    '/results/:name/:key',
    {
      config: { access: 'jobs:submit', share: RESULT_SHARE },
      schema: {
        summary: 'See to it that there is a result of a task or workflow for this input',
        description:
          '200 with the kept result of an equal input; else 202 with the one active job, a new one if there is none. 409 while a job with another input is active. 429 only when a new job would be needed. Repeat it until it is 200.',
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
        summary: 'Look for a result; starts nothing',
        description: '200 with the newest result, 202 while a job is active, 404 when there is neither.',
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
