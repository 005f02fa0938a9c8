import { type Static, Type } from 'typebox'
import { JOB_STATUSES, WAITS } from '../model/job.ts'
import { MAX_JOB_REASON, MAX_OWNER } from '../model/limits.ts'
import { JobBody, Status } from './jobs.ts'
import { JobId, Key, Name, Priority, Tag, TextOrNull, Timestamp } from './scalars.ts'

const STRICT = { additionalProperties: false } as const
export const MAX_PAGE = 200

const names = JOB_STATUSES.join('|')

/** The fields of job filters, in queries and bodies. */
const CRITERIA = {
  task: Type.Optional(Name),
  lane: Type.Optional(Name),
  key: Type.Optional(Key),
  tag: Type.Optional(Tag),
  submittedBy: Type.Optional(Type.String({ minLength: 1, maxLength: MAX_OWNER })),
  submittedFrom: Type.Optional(Timestamp),
  submittedTo: Type.Optional(Timestamp),
  finishedFrom: Type.Optional(Timestamp),
  finishedTo: Type.Optional(Timestamp),
  error: Type.Optional(
    Type.String({ minLength: 1, maxLength: 200, description: 'A part of the error, case-insensitive' }),
  ),
  waits: Type.Optional(
    Type.Unsafe<(typeof WAITS)[number]>({
      type: 'string',
      enum: [...WAITS],
      description:
        'For queued jobs: turn, ready to start; time, scheduled for later; retry, waiting for the next attempt after one that failed or was lost',
    }),
  ),
  fingerprint: Type.Optional(
    Type.String({
      pattern: '^[0-9a-f]{12}$',
      'x-rule': 'the `fingerprint` of a group of errors, 12 hexadecimal digits',
      description:
        'Failed jobs of a group of errors, including children, latest failure first. Can be combined only with task, submittedBy, finishedFrom and finishedTo',
    }),
  ),
}

export const ListQuery = Type.Object(
  {
    status: Type.Optional(
      Type.String({
        pattern: `^(${names})(,(${names}))*$`,
        'x-rule': `one or more of ${JOB_STATUSES.join(', ')}, separated by commas`,
        description: `One or more of ${JOB_STATUSES.join(', ')}, separated by commas`,
        examples: ['queued,running'],
      }),
    ),
    ...CRITERIA,
    children: Type.Optional(
      Type.Boolean({ description: 'true: includes jobs of trees, but none that a rerun has replaced' }),
    ),
    order: Type.Optional(
      Type.Unsafe<'line'>({
        type: 'string',
        enum: ['line'],
        description:
          'line: queued jobs in the order in which they would start, with waits=turn; otherwise the newest first. Each lane has a line of its own',
      }),
    ),
    before: Type.Optional(JobId),
    cursor: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 200,
        description: 'The `next` of the previous page; not together with `before`',
      }),
    ),
    limit: Type.Optional(Type.Integer({ minimum: 1, maximum: MAX_PAGE, default: 50 })),
  },
  STRICT,
)
export type ListQuery = Static<typeof ListQuery>

const Share = {
  total: Type.Integer(),
  ended: Type.Integer({ description: 'How many of them have ended, in any state' }),
}

const FanOutShare = {
  paused: Type.Optional(Type.Boolean({ description: 'For a fan-out: its window is 0' })),
  willFail: Type.Optional(Type.String({ description: 'For a fan-out: why it can no longer succeed' })),
}

/** The progress of a job that has children. */
export const Below = Type.Object(
  {
    ...Share,
    ...FanOutShare,
    fanOut: Type.Optional(
      Type.Object(
        { step: Type.String(), ...Share, ...FanOutShare },
        { description: 'For a workflow: its first running fan-out' },
      ),
    ),
    waitsFor: Type.Optional(
      Type.Object(
        {
          jobId: JobId,
          step: Type.String({
            description: 'With the groups and sub-workflows that contain it: publish/notify',
          }),
          status: Status,
          reason: Type.Unsafe<string | null>({
            ...TextOrNull,
            description: 'What blocks it, if known',
          }),
          text: Type.String({ description: 'The same, as a short text' }),
        },
        { description: 'For a workflow: the step it waits for; a step that waits for approval comes first' },
      ),
    ),
  },
  {
    description: 'For a fan-out or a workflow with running children, if it has at most 500 of them',
  },
)

/** A job in lists: without input, result and checkpoint, which may be large. */
export const JobSummaryBody = Type.Object({
  ...Type.Omit(JobBody, ['input', 'result', 'checkpoint', 'errorDetail']).properties,
  below: Type.Optional(Below),
  blockedBy: Type.Optional(
    Type.String({ description: 'What blocks a queued job, in a few words, as last sampled' }),
  ),
  inputPreview: Type.Optional(
    Type.String({
      description:
        'The first 300 characters of the input of a job that waits for approval; left out where the input is large',
    }),
  ),
})
export type JobSummaryBody = Static<typeof JobSummaryBody>

export const JobListBody = Type.Object({
  jobs: Type.Array(JobSummaryBody, {
    description:
      'Newest first; with order=line, in the order in which they would start. Children are included with children=true or fingerprint',
  }),
  next: Type.Unsafe<string | null>({
    ...TextOrNull,
    description:
      'The `cursor` of the next page; null when no more follow. A page may be short or empty although more follow, because each reads a bounded number of jobs',
  }),
})

export type JobListBody = Static<typeof JobListBody>

export const FilterBody = Type.Object(
  { status: Type.Optional(Type.Array(Status, { minItems: 1 })), ...CRITERIA },
  {
    ...STRICT,
    description: 'Which jobs: those that match every field. Workflows include everything below them',
  },
)

export const BulkActionBody = Type.Object(
  {
    action: Type.Unsafe<'cancel' | 'retry' | 'priority'>({
      type: 'string',
      enum: ['cancel', 'retry', 'priority'],
    }),
    filter: FilterBody,
    all: Type.Optional(
      Type.Boolean({
        description: 'Required with an empty filter, which matches every job that the action applies to',
      }),
    ),
    dryRun: Type.Optional(Type.Boolean({ description: 'Only count what would change' })),
    priority: Type.Optional(Priority),
    reason: Type.Optional(
      Type.String({ maxLength: MAX_JOB_REASON, description: 'For a cancel; kept with the jobs' }),
    ),
    cursor: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 200,
        description: 'The `next` of a response that was not the last',
      }),
    ),
  },
  STRICT,
)
export type BulkActionBody = Static<typeof BulkActionBody>

export const BulkActionAnswer = Type.Object({
  matched: Type.Integer({ description: 'Matching jobs in a state that the action applies to' }),
  changed: Type.Integer({ description: 'Jobs that were changed; 0 in a dry run' }),
  refused: Type.Array(Type.Object({ id: JobId, code: Type.String(), detail: Type.String() }), {
    description: 'The first 100 that could not be changed',
  }),
  reruns: Type.Optional(
    Type.Object(
      {
        jobs: Type.Integer({ description: 'Leaf jobs to run again' }),
        workflows: Type.Array(
          Type.Object({ name: Type.String(), runs: Type.Integer(), jobs: Type.Integer() }),
          { description: 'Workflows to run again, and how many of their jobs' },
        ),
        leftOut: Type.Integer({
          description: 'Jobs that are skipped because their workflow was cancelled on request',
        }),
      },
      { description: 'For a retry: what runs again, or would in a dry run' },
    ),
  ),
  next: Type.Unsafe<string | null>({
    ...TextOrNull,
    description: 'More remains than fits into one request: repeat it with this as `cursor`. null: complete',
  }),
})
export type BulkActionAnswer = Static<typeof BulkActionAnswer>
