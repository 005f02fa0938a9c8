import type { FastifyRequest } from 'fastify'
import type { Services } from '../../app/services.ts'
import { type SubmitOptions, traced } from '../../app/submission.ts'
import type { Submission, SubmissionAuthor } from '../../engine/submit/submitter.ts'
import { type TraceHeaders, traceOfRequest } from '../../tracing.ts'

/** A submission on behalf of the caller. */
export async function submissionOf(
  services: Services,
  { caller, headers }: FastifyRequest,
  name: string,
  input: unknown,
  options: SubmitOptions,
  author: SubmissionAuthor,
): Promise<Submission> {
  const submission = traced(
    await services.toSubmission(name, input, options, caller.name),
    traceOfRequest(headers as TraceHeaders),
  )
  return { ...submission, author }
}

/** Who submits with this request. All its submissions have the same object, and so one line in the audit. */
export function submissionAuthor({ caller, id: requestId, reason }: FastifyRequest): SubmissionAuthor {
  return { actor: caller.name, keyId: caller.keyId, requestId, reason }
}
