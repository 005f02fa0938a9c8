import type { FastifyRequest } from 'fastify'
import type { EngineRoom } from '../app/app.ts'
import { type SubmitOptions, traced } from '../app/submission.ts'
import type { Submission } from '../engine/submitter.ts'
import { type TraceHeaders, traceOfRequest } from '../tracing.ts'

/** A submission on behalf of whoever asks. The statement that stores the job writes the audit too. */
export async function submissionOf(
  room: EngineRoom,
  { caller, id: requestId, headers }: FastifyRequest,
  name: string,
  input: unknown,
  options: SubmitOptions,
): Promise<Submission> {
  const submission = traced(
    await room.toSubmission(name, input, options, caller.name),
    traceOfRequest(headers as TraceHeaders),
  )
  const audit = { actor: caller.name, keyId: caller.keyId, requestId }
  return { ...submission, json: `${submission.json.slice(0, -1)},"audit":${JSON.stringify(audit)}}` }
}
