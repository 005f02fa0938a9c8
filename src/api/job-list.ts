import { type Static, Type } from 'typebox'
import { JOB_STATUSES, WAITS } from '../model/job.ts'
import { MAX_JOB_REASON, MAX_OWNER } from '../model/limits.ts'
import { JobBody, Status } from './jobs.ts'
import { JobId, Key, Name, Priority, Tag, TextOrNull, Timestamp } from './scalars.ts'

const STRICT = { additionalProperties: false } as const
export const MAX_PAGE = 200

const names = JOB_STATUSES.join('|')

/** Fields that jobs are searched by, in a query and in a body. */
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
    Type.String({ minLength: 1, maxLength: 200, description: 'A part of the error, in capitals or not' }),
  ),
  waits: Type.Optional(
    Type.Unsafe<(typeof WAITS)[number]>({
      type: 'string',
      enum: [...WAITS],
      description:
        'Of those that are queued: turn, that could start; time, whose time has not come; retry, that wait for another attempt after one that failed or was lost',
    }),
  ),
  fingerprint: Type.Optional(
    Type.String({
      pattern: '^[0-9a-f]{12}$',
      'x-rule': 'the `fingerprint` of a group of errors, 12 hexadecimal digits',
      description:
        'Failed jobs of a group of errors, children included, the latest failure first. With task, submittedBy, finishedFrom and finishedTo only',
    }),
  ),
}

export const ListQuery = Type.Object(
  {
    status: Type.Optional(
      Type.String({
        pattern: `^(${names})(,(${names}))*$`,
        'x-rule': `some of ${JOB_STATUSES.join(', ')}, with commas between`,
        description: `Some of ${JOB_STATUSES.join(', ')}, with commas between`,
        examples: ['queued,running'],
      }),
    ),
    ...CRITERIA,
    children: Type.Optional(
      Type.Boolean({ description: 'true: jobs of trees too, but none that a rerun has replaced' }),
    ),
    before: Type.Optional(JobId),
    cursor: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 200,
        description: 'The `next` of the page before; not together with `before`',
      }),
    ),
    limit: Type.Optional(Type.Integer({ minimum: 1, maximum: MAX_PAGE, default: 50 })),
  },
  STRICT,
)
export type ListQuery = Static<typeof ListQuery>

const Share = {
  total: Type.Integer(),
  ended: Type.Integer({ description: 'Of those, however they ended' }),
}

const FanOutShare = {
  paused: Type.Optional(Type.Boolean({ description: 'Of a fan-out: its window is 0' })),
  willFail: Type.Optional(Type.String({ description: 'Of a fan-out: why it cannot succeed any more' })),
}

/** How far something is that has others below it. */
export const Below = Type.Object(
  {
    ...Share,
    ...FanOutShare,
    fanOut: Type.Optional(
      Type.Object(
        { step: Type.String(), ...Share, ...FanOutShare },
        { description: 'Of a workflow: the first of its fan-outs that runs' },
      ),
    ),
    waitsFor: Type.Optional(
      Type.Object(
        {
          jobId: JobId,
          step: Type.String({ description: 'With the groups and sub-workflows on the way: publish/notify' }),
          status: Status,
          reason: Type.Unsafe<string | null>({
            ...TextOrNull,
            description: 'What keeps it from starting, where that is known',
          }),
          text: Type.String({ description: 'The same in a few words' }),
        },
        { description: 'Of a workflow: the step it waits for; one that waits for approval first' },
      ),
    ),
  },
  {
    description:
      'Of a fan-out that runs its children, of a workflow that runs its steps, where it has at most 500 of them',
  },
)

/** A job as lists show it: without input, result and checkpoint, which may be large. */
export const JobSummaryBody = Type.Object({
  ...Type.Omit(JobBody, ['input', 'result', 'checkpoint', 'errorDetail']).properties,
  below: Type.Optional(Below),
})
export type JobSummaryBody = Static<typeof JobSummaryBody>

export const JobListBody = Type.Object({
  jobs: Type.Array(JobSummaryBody, {
    description: 'The newest first. Children are not in lists: see the tree',
  }),
  next: Type.Unsafe<string | null>({
    ...TextOrNull,
    description:
      'The `cursor` of the next page; null when nothing follows. A page may be short, even empty, and yet be followed: each looks at a bounded number of jobs',
  }),
})

export type JobListBody = Static<typeof JobListBody>

export const FilterBody = Type.Object(
  { status: Type.Optional(Type.Array(Status, { minItems: 1 })), ...CRITERIA },
  {
    ...STRICT,
    description: 'Which jobs: those that match every field. Workflows are meant with all below them',
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
        description: 'Needed with an empty filter, which finds every job that the action is for',
      }),
    ),
    dryRun: Type.Optional(Type.Boolean({ description: 'Only count what would be changed' })),
    priority: Type.Optional(Priority),
    reason: Type.Optional(
      Type.String({ maxLength: MAX_JOB_REASON, description: 'Of a cancel; kept with the jobs' }),
    ),
    cursor: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 200,
        description: 'The `next` of an answer that was not the last',
      }),
    ),
  },
  STRICT,
)
export type BulkActionBody = Static<typeof BulkActionBody>

export const BulkActionAnswer = Type.Object({
  matched: Type.Integer({ description: 'Jobs that the filter found in a state the action is for' }),
  changed: Type.Integer({ description: 'Jobs that were changed; 0 in a dry run' }),
  refused: Type.Array(Type.Object({ id: JobId, code: Type.String(), detail: Type.String() }), {
    description: 'The first 100 that could not be changed',
  }),
  reruns: Type.Optional(
    Type.Object(
      {
        jobs: Type.Integer({ description: 'Leaf jobs that run again' }),
        workflows: Type.Array(
          Type.Object({ name: Type.String(), runs: Type.Integer(), jobs: Type.Integer() }),
          { description: 'Workflows that run again, and how many of their jobs' },
        ),
        leftOut: Type.Integer({
          description: 'Jobs left out because their workflow was cancelled on request',
        }),
      },
      { description: 'Of a retry: what runs again, or would in a dry run' },
    ),
  ),
  next: Type.Unsafe<string | null>({
    ...TextOrNull,
    description:
      'There is more to do than fits into one request: ask again with this as `cursor`. null: all is done',
  }),
})
export type BulkActionAnswer = Static<typeof BulkActionAnswer>
