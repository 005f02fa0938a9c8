import type { FastifyRequest } from 'fastify'
import {
  BulkBody,
  BulkSubmittedBody,
  IdempotencyHeaders,
  SubmitBody,
  type SubmitBody as SubmitJson,
  SubmittedBody,
  type SubmittedBody as SubmittedJson,
} from '../../api/jobs.ts'
import type { Services } from '../../app/services.ts'
import type { SubmitOptions } from '../../app/submission.ts'
import { NameKinds } from '../../engine/operate/name-kinds.ts'
import type { Submission, SubmissionAuthor } from '../../engine/submit/submitter.ts'
import { SluiceError } from '../../errors.ts'
import { withoutSecrets } from '../../model/redact.ts'
import type { SubmittedJob } from '../../store/submit-jobs.ts'
import { checkLaneOf } from '../callers/lane-choice.ts'
import { checkPriorityOf } from '../callers/priority-cap.ts'
import { submissionAuthor, submissionOf } from '../callers/submissions.ts'
import { hiddenJobs, visibleJob } from '../callers/visible-job.ts'
import { idempotencyKey, once } from '../http/idempotency.ts'
import { withIndex } from '../limits/bulk-refusal.ts'
import { LARGE_SHARE } from '../limits/caller-shares.ts'
import { recordingRefusals } from '../limits/refusals.ts'
import type { Server, ServerParts } from '../parts.ts'

/** The audit entries of accepted and rejected submissions. */
const SUBMIT = 'job.submit'

/** `POST /jobs` and `POST /jobs/bulk`. */
export function submitRoutes(server: Server, parts: ServerParts): void {
  const { services } = parts
  const { gate } = services
  const kinds = new NameKinds(services.calls)
  const config = { access: 'jobs:submit' } as const
  const tags = ['jobs']

  server.post(
    '/jobs',
    {
      config,
      schema: {
        summary: 'Submit a job or a workflow',
        description:
          '202 with the address of the new job in Location; 200 if an active job already has the key. 429 with Retry-After at an admission limit. With an Idempotency-Key, the request can safely be repeated for 24 h.',
        tags,
        headers: IdempotencyHeaders,
        body: SubmitBody,
        response: { 200: SubmittedBody, 202: SubmittedBody },
      },
    },
    async (request, reply) => {
      const author = submissionAuthor(request)
      const submission = await recordingRefusals(parts, request, { action: SUBMIT }, async () => {
        const { lane, task = request.body.name } = request.body
        await checkLaneOf(services.calls, request.caller, task, lane)
        return toSubmission(services, kinds, request, author, request.body)
      })
      const { task, key = '' } = submission
      const what = {
        action: SUBMIT,
        target: withoutSecrets(`task ${task}${key === '' ? '' : `, key ${key}`}`),
      }
      const { id, attached } = await recordingRefusals(parts, request, what, () =>
        idempotencyKey(request) === undefined
          ? gate.pass([submission], () => services.submitter.submit(submission))
          : once(
              services.db,
              request,
              async (tx) => (await services.submitter.submitIn(tx, [submission]))[0]!,
            ),
      )
      const location = { location: `/api/v1/jobs/${id}` }
      if (!attached) return reply.code(202).headers(location).send({ id, attached })
      const [job] = await withReadable(services, request, [{ id, attached }])
      return reply
        .code(200)
        .headers(job!.readable === false ? {} : location)
        .send(job!)
    },
  )

  server.post(
    '/jobs/bulk',
    {
      config: { ...config, share: LARGE_SHARE },
      schema: {
        summary: 'Submit many jobs in one transaction: all or none',
        tags,
        headers: IdempotencyHeaders,
        body: BulkBody,
        response: { 202: BulkSubmittedBody },
      },
    },
    async (request, reply) => {
      const author = submissionAuthor(request)
      const submissions: Submission[] = []
      await recordingRefusals(parts, request, { action: SUBMIT }, async () => {
        await checkLanes(services, request, request.body.jobs)
        for (const [index, job] of request.body.jobs.entries())
          submissions.push(await toSubmission(services, kinds, request, author, job, index))
      })
      const submitAll = <T>(submit: () => Promise<T>): Promise<T> =>
        submit().catch(async (error: unknown) => {
          const entries = submissions.map(({ task, key, fields }, index) => {
            const { lane, input = null } = request.body.jobs[index]!
            return { task, key, fields, lane, input }
          })
          throw await withIndex(services.calls, entries, error)
        })
      // A repeated request gets its stored response even where a new submission would be rejected.
      const jobs = await recordingRefusals(parts, request, { action: SUBMIT }, () =>
        idempotencyKey(request) === undefined
          ? gate.pass(submissions, () => submitAll(() => services.submitter.submitMany(submissions)))
          : submitAll(() => once(services.db, request, (tx) => services.submitter.submitIn(tx, submissions))),
      )
      return reply.code(202).send({ jobs: await withReadable(services, request, jobs) })
    },
  )
}

/** Looks up each task and lane once, even with many entries. @throws {SluiceError} `LANE_FIXED`, `LANE_PAUSED` naming the entry. */
async function checkLanes(
  { calls }: Services,
  request: FastifyRequest,
  jobs: readonly SubmitJson[],
): Promise<void> {
  const seen = new Set<string>()
  for (const [index, { task, name, lane }] of jobs.entries()) {
    const choice = JSON.stringify([task ?? name, lane])
    if (lane === undefined || seen.has(choice)) continue
    seen.add(choice)
    await checkLaneOf(calls, request.caller, task ?? name, lane).catch((error: unknown) => {
      throw atEntry(error, index)
    })
  }
}

function atEntry(error: unknown, index: number): unknown {
  if (!(error instanceof SluiceError)) return error
  return new SluiceError(error.code, `jobs.${index}: ${error.message}`, {
    details: { ...error.details, index },
    cause: error,
  })
}

/** Marks the attached jobs that the caller may not see. */
async function withReadable(
  { calls }: Services,
  request: FastifyRequest,
  jobs: readonly SubmittedJob[],
): Promise<SubmittedJson[]> {
  const attached = jobs.filter((each) => each.attached).map(({ id }) => id)
  const hidden = await hiddenJobs(calls, request, attached)
  return jobs.map((job) => (hidden.has(job.id) ? { ...job, readable: false } : job))
}

/** @param index The position in a bulk request, for messages and details. */
async function toSubmission(
  services: Services,
  kinds: NameKinds,
  request: FastifyRequest,
  author: SubmissionAuthor,
  body: SubmitJson,
  index?: number,
): Promise<Submission> {
  const place = index === undefined ? '' : `jobs.${index}.`
  const which = index === undefined ? {} : { index }
  const { task, workflow, name: either, input = null, ...rest } = body
  const [name, ...more] = [task, workflow, either].filter((each) => each !== undefined)
  if (name === undefined || more.length > 0) {
    const found = name === undefined ? 'neither is given' : 'more than one is given'
    throw new SluiceError(
      'INVALID_ARGUMENT',
      `${place}task: a submission names a task or a workflow; ${found}`,
      { details: { argument: `${place}task`, ...which } },
    )
  }
  try {
    checkPriorityOf(request.caller, rest.priority)
    if (rest.resubmitOf !== undefined) await visibleJob(services.calls, request, rest.resubmitOf)
    if (either === undefined) await kinds.check(name, task === undefined ? 'workflow' : 'task')
    return await submissionOf(services, request, name, input, toOptions(rest), author)
  } catch (error) {
    throw index === undefined ? error : atEntry(error, index)
  }
}

function toOptions({
  runAt,
  ...rest
}: Omit<SubmitJson, 'task' | 'workflow' | 'name' | 'input'>): SubmitOptions {
  return runAt === undefined ? rest : { ...rest, runAt: toMoment(runAt) }
}

/** A date that does not exist is passed on as a duration, because the error for durations explains the valid forms. */
function toMoment(text: string | number): Date | string | number {
  if (typeof text === 'number' || !/^\d{4}-\d\d-\d\dT/.test(text)) return text
  const date = new Date(text)
  if (!Number.isNaN(date.getTime())) return date
  throw new SluiceError(
    'INVALID_ARGUMENT',
    `runAt: ${JSON.stringify(text)} is not a time; write it as 2031-05-01T08:00:00Z`,
    {
      details: { argument: 'runAt' },
    },
  )
}
