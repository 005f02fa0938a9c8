import { type Static, Type } from 'typebox'
import type { ErrorDetail } from '../model/error-detail.ts'
import { JOB_STATES, JOB_STATUSES } from '../model/job.ts'
import { TIMELINE_EVENTS, type TimelineEvent } from '../model/job-timeline.ts'
import type { JsonValue } from '../model/json.ts'
import { MAX_JOB_REASON } from '../model/limits.ts'
import {
  Deadline,
  JobId,
  Json,
  Key,
  Name,
  NumberOrNull,
  Priority,
  Tags,
  TextOrNull,
  Timestamp,
  TimestampOrNull,
  WholeOrNull,
} from './scalars.ts'

const STRICT = { additionalProperties: false } as const

export const JobParams = Type.Object({ id: JobId }, STRICT)

export const Status = Type.Unsafe<(typeof JOB_STATUSES)[number]>({ type: 'string', enum: [...JOB_STATUSES] })
const State = Type.Unsafe<(typeof JOB_STATES)[number]>({
  type: 'string',
  enum: [...JOB_STATES],
  description: 'The stored state, finer than status',
})
export const Kind = Type.Unsafe<'workflow' | 'group' | 'fanout' | null>({
  type: ['string', 'null'],
  enum: ['workflow', 'group', 'fanout', null],
  description: 'null: a leaf job, which runs a task',
})

const Detail = Type.Unsafe<ErrorDetail | null>({
  description:
    'What was thrown: class, message, stack, properties, value, cause, errors; null if nothing was thrown',
})

/** One submission: exactly one of `task`, `workflow` and `name`. */
export const SubmitBody = Type.Object(
  {
    task: Type.Optional(Name),
    workflow: Type.Optional(Name),
    name: Type.Optional(
      Type.String({ ...Name, description: 'The name of a task or a workflow, when it is unknown which' }),
    ),
    input: Type.Optional(Type.Unknown({ description: 'Any JSON; null by default' })),
    key: Type.Optional(
      Type.String({
        ...Key,
        description:
          'At most one active job per task and key: a submission with the same input attaches to it, another input is rejected',
      }),
    ),
    priority: Type.Optional(Priority),
    lane: Type.Optional(Name),
    runAt: Type.Optional(
      Type.Unsafe<string | number>({
        type: ['string', 'number'],
        description: 'The earliest start: a time such as 2031-05-01T08:00:00Z, or a delay such as "10m"',
      }),
    ),
    deadline: Type.Optional(Deadline),
    tags: Type.Optional(Tags),
    resubmitOf: Type.Optional(
      Type.String({
        ...JobId,
        description: 'The job that this one replaces; each refers to the other',
      }),
    ),
  },
  { ...STRICT, examples: [{ task: 'resize', input: { file: 'cat.png' } }] },
)
export type SubmitBody = Static<typeof SubmitBody>

/** Fits the body limit. One statement takes 4,000. */
export const MAX_BULK = 4000

export const BulkBody = Type.Object(
  { jobs: Type.Array(SubmitBody, { minItems: 1, maxItems: MAX_BULK }) },
  STRICT,
)
export type BulkBody = Static<typeof BulkBody>

/** For a job to which the submission was attached. */
export const Readable = Type.Optional(
  Type.Boolean({
    description: 'False: the job belongs to another owner, and you may not read it. Absent otherwise',
  }),
)

export const SubmittedBody = Type.Object({
  id: JobId,
  attached: Type.Boolean({ description: 'True: an active job had the key, and nothing was stored' }),
  readable: Readable,
})
export type SubmittedBody = Static<typeof SubmittedBody>

export const BulkSubmittedBody = Type.Object({ jobs: Type.Array(SubmittedBody) })
export type BulkSubmittedBody = Static<typeof BulkSubmittedBody>

export const IdempotencyHeaders = Type.Object({
  'idempotency-key': Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 200,
      pattern: '^[\\x21-\\x7e]+$',
      'x-rule': '1 to 200 ASCII letters, digits and symbols, without spaces',
      description: 'A repeat of the request with the same key within 24 h gets the first response',
    }),
  ),
})

export const JobBody = Type.Object({
  id: JobId,
  task: Type.String(),
  lane: TextOrNull,
  laneChosen: Type.Boolean({
    description:
      'Whether the submission named the lane. Otherwise, a waiting job follows its task to another lane',
  }),
  model: Type.Unsafe<string | null>({ ...TextOrNull, description: 'The model it needs; null: none' }),
  devices: Type.Array(Type.String(), { description: 'The devices it uses while it runs' }),
  kind: Kind,
  parentId: TextOrNull,
  rootId: TextOrNull,
  workflow: Type.Unsafe<string | null>({
    ...TextOrNull,
    description: 'The workflow it is a step of; null: none',
  }),
  rootStatus: Type.Unsafe<(typeof JOB_STATUSES)[number] | null>({
    type: ['string', 'null'],
    enum: [...JOB_STATUSES, null],
    description: 'For a step: the state of the whole tree, which must have ended before a step can run again',
  }),
  step: TextOrNull,
  index: WholeOrNull,
  status: Status,
  state: State,
  priority: Type.Integer(),
  key: TextOrNull,
  tags: Type.Array(Type.String()),
  input: Json,
  result: Json,
  error: TextOrNull,
  errorDetail: Detail,
  attempt: Type.Integer({ description: 'Starts so far' }),
  failures: Type.Integer(),
  losses: Type.Integer(),
  worker: TextOrNull,
  cancelling: Type.Boolean(),
  progress: NumberOrNull,
  message: TextOrNull,
  checkpoint: Json,
  submittedAt: Timestamp,
  readyAt: Timestamp,
  deadlineAt: TimestampOrNull,
  startedAt: TimestampOrNull,
  finishedAt: TimestampOrNull,
  submittedBy: TextOrNull,
  approvedBy: TextOrNull,
  resubmitOf: Type.Unsafe<string | null>({
    ...TextOrNull,
    description: 'The job that this one replaces; null: none',
  }),
  resubmittedAs: Type.Array(JobId, { description: 'The jobs that replace this one' }),
  superseded: Type.Boolean({
    description: 'A rerun has replaced it or a job that contains it: this job is history',
  }),
})
export type JobBody = Static<typeof JobBody>

export const AttemptsBody = Type.Object({
  attempts: Type.Array(
    Type.Object({
      attempt: Type.Integer(),
      worker: TextOrNull,
      startedAt: TimestampOrNull,
      endedAt: TimestampOrNull,
      ending: Type.String({ description: '"running" for the current attempt' }),
      error: TextOrNull,
      detail: Detail,
    }),
  ),
})

export type AttemptsBody = Static<typeof AttemptsBody>

export const TimelineBody = Type.Object({
  entries: Type.Array(
    Type.Object({
      at: Type.Unsafe<string | null>({
        ...TimestampOrNull,
        description: 'null: not stored',
      }),
      what: Type.Unsafe<TimelineEvent>({ type: 'string', enum: [...TIMELINE_EVENTS] }),
      attempt: WholeOrNull,
      worker: TextOrNull,
      by: Type.Unsafe<string | null>({
        ...TextOrNull,
        description: "Who did it, if it was a caller's action",
      }),
      error: TextOrNull,
      durationMs: Type.Unsafe<number | null>({
        ...NumberOrNull,
        description: 'For a start: how long it waited before. For an end: how long the attempt took',
      }),
      final: Type.Boolean({ description: 'The job has ended with this event' }),
    }),
    { description: 'In chronological order' },
  ),
})
export type TimelineBody = Static<typeof TimelineBody>

export const LogsQuery = Type.Object(
  {
    after: Type.Optional(
      Type.String({
        pattern: '^[0-9]{1,19}$',
        'x-rule': 'the id of a line, a whole number',
        description: 'Lines after the one with this id',
      }),
    ),
    limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 10_000, default: 1000 })),
  },
  STRICT,
)

export const LogLineBody = Type.Object({
  id: Type.String(),
  attempt: Type.Integer(),
  at: Timestamp,
  level: Type.String(),
  line: Type.String(),
})
export type LogLineBody = Static<typeof LogLineBody>

export const LogsBody = Type.Object({
  lines: Type.Array(LogLineBody),
  next: Type.Unsafe<string | null>({
    type: ['string', 'null'],
    description: 'Continue with this as after; null: no more lines so far',
  }),
})
export type LogsBody = Static<typeof LogsBody>

export const TreeQuery = Type.Object(
  {
    depth: Type.Optional(
      Type.Integer({ minimum: 0, maximum: 1_000_000, description: 'Levels below the job' }),
    ),
  },
  STRICT,
)

export const Counts = Type.Object({
  total: Type.Integer(),
  completed: Type.Integer(),
  failed: Type.Integer(),
  cancelled: Type.Integer(),
  window: Type.Unsafe<number | null>({ ...WholeOrNull, description: '0: paused; null: no limit' }),
  inFlight: Type.Integer(),
  resumesAt: Type.Optional(Type.Integer({ description: 'While paused: the window that a resume restores' })),
  willFail: Type.Optional(
    Type.String({ description: 'While running: why it can no longer succeed; absent: it still can' }),
  ),
})

export const NotReached = Type.Object(
  {
    total: Type.Integer(),
    steps: Type.Array(
      Type.Object({
        step: Type.String(),
        kind: Type.Unsafe<'task' | 'workflow' | 'group' | 'fanout'>({
          type: 'string',
          enum: ['task', 'workflow', 'group', 'fanout'],
        }),
        runs: Type.Unsafe<string | null>({
          ...TextOrNull,
          description: 'The task or workflow; null for a group',
        }),
      }),
      { description: 'In definition order; the first hundred' },
    ),
  },
  {
    description:
      'For a workflow or group with all children listed: its steps that the run has not reached. Absent: none',
  },
)

export const TreeBody = Type.Object({
  id: JobId,
  parentId: TextOrNull,
  previousId: TextOrNull,
  nextId: TextOrNull,
  firstChildId: TextOrNull,
  step: TextOrNull,
  index: WholeOrNull,
  kind: Kind,
  task: Type.String(),
  status: Status,
  error: TextOrNull,
  attempts: Type.Integer(),
  submittedAt: Timestamp,
  startedAt: TimestampOrNull,
  finishedAt: TimestampOrNull,
  earlierIds: Type.Array(Type.String()),
  counts: Type.Optional(Counts),
  hidden: Type.Integer({ description: 'Direct children that are not listed: too many, or too deep' }),
  notReached: Type.Optional(NotReached),
  children: Type.Unsafe<unknown[]>({ type: 'array', items: {}, description: 'Nodes like this one' }),
})

export type TreeBody = Static<typeof TreeBody>

const Difference = Type.Object({
  path: Type.String(),
  here: Type.Optional(Type.Unsafe<JsonValue>(Json)),
  there: Type.Optional(Type.Unsafe<JsonValue>(Json)),
})

const DecidedStep = Type.Object({
  step: Type.String(),
  id: TextOrNull,
  status: Type.Unsafe<(typeof JOB_STATUSES)[number] | 'not_reached'>({
    type: 'string',
    enum: [...JOB_STATUSES, 'not_reached'],
  }),
  why: TextOrNull,
  handled: Type.Boolean(),
})

export const TraceBody = Type.Object({
  root: JobId,
  failure: JobId,
  suspect: TextOrNull,
  levels: Type.Array(
    Type.Object({
      id: JobId,
      step: TextOrNull,
      index: WholeOrNull,
      kind: Kind,
      task: Type.String(),
      status: Status,
      attempts: Type.Integer(),
      startedAt: TimestampOrNull,
      finishedAt: TimestampOrNull,
      input: Json,
      error: TextOrNull,
      sources: Type.Optional(
        Type.Array(DecidedStep, { description: 'The sibling steps whose results it was created from' }),
      ),
      steps: Type.Optional(Type.Array(DecidedStep)),
      counts: Type.Optional(Counts),
      failedAt: Type.Optional(Type.Array(Type.Integer())),
      comparison: Type.Optional(
        Type.Object({
          with: JobId,
          how: Type.Unsafe<'sibling' | 'last_good_run'>({
            type: 'string',
            enum: ['sibling', 'last_good_run'],
          }),
          index: Type.Optional(Type.Integer()),
          differences: Type.Array(Difference),
          more: Type.Boolean(),
        }),
      ),
    }),
  ),
})

export type TraceBody = Static<typeof TraceBody>

export const CancelQuery = Type.Object(
  {
    reason: Type.Optional(Type.String({ maxLength: MAX_JOB_REASON, description: 'Kept with the job' })),
    only: Type.Optional(
      Type.Unsafe<'cancel' | 'delete'>({
        type: 'string',
        enum: ['cancel', 'delete'],
        description: 'Reject with 409 if the job is in a state for the other of the two',
      }),
    ),
  },
  STRICT,
)

const CancelReason = Type.Object(
  { reason: Type.Optional(Type.String({ maxLength: MAX_JOB_REASON, description: 'Kept with the job' })) },
  STRICT,
)
/** For an operator's cancel: in the body, which is optional, or in the query. */
export const OperatorCancelBody = Type.Union([CancelReason, Type.Null()])
export const OperatorCancelQuery = CancelReason

/** A job after a change. */
export const ChangedJobBody = Type.Object({ id: JobId, status: Status })
export const RemovedJobBody = Type.Object({
  id: JobId,
  deleted: Type.Boolean(),
  status: Type.Optional(Status),
})

export type RemovedJobBody = Static<typeof RemovedJobBody>

/** An optional body. */
const Comment = Type.Object({ comment: Type.Optional(Type.String({ maxLength: MAX_JOB_REASON })) }, STRICT)
export const ApproveBody = Type.Union([Comment, Type.Null()])
export const RejectBody = Type.Object({ comment: Type.String({ maxLength: MAX_JOB_REASON }) }, STRICT)

const Retry = Type.Object(
  {
    failed: Type.Optional(
      Type.Boolean({ description: 'The failed jobs of the tree, and what depends on them' }),
    ),
    only: Type.Optional(
      Type.Array(JobId, {
        minItems: 1,
        maxItems: 10_000,
        description: 'With failed: only these of the failed jobs below the job. They run again together',
      }),
    ),
    from: Type.Optional(
      Type.String({ minLength: 1, maxLength: 100, description: 'A step, and what depends on it' }),
    ),
    input: Type.Optional(Type.Unknown({ description: 'Replaces the rendered input of that step' })),
    dryRun: Type.Optional(Type.Boolean({ description: 'Only report what would run again' })),
  },
  STRICT,
)
export const RetryBody = Type.Union([Retry, Type.Null()])

export type RetryBody = Static<typeof Retry>

export const RetriedBody = Type.Object({
  root: JobId,
  name: Type.String({ description: 'The task or workflow of the root' }),
  jobs: Type.Integer({ description: 'How many run again' }),
  superseded: Type.Integer({ description: 'How many are replaced' }),
  refused: Type.Array(Type.Object({ id: JobId, code: Type.String(), detail: Type.String() }), {
    description: 'For only: jobs that cannot run again; the others do',
  }),
})

export type RetriedBody = Static<typeof RetriedBody>

export const WindowBody = Type.Object(
  {
    concurrency: Type.Optional(
      Type.Integer({ minimum: 0, maximum: 2_147_483_647, description: '0 pauses the fan-out' }),
    ),
    resume: Type.Optional(
      Type.Boolean({ description: 'Instead of concurrency: restores the size before the pause' }),
    ),
  },
  STRICT,
)
export const WindowChangeBody = Type.Object({ before: Type.Integer(), after: Type.Integer() })
export type WindowChangeBody = Static<typeof WindowChangeBody>

export const PriorityBody = Type.Object({ priority: Priority }, STRICT)
/**
 * Only this much of the job, because permission to change other owners' jobs does not imply permission to read them.
 */
export const ReprioritisedBody = Type.Object({ id: JobId, status: Status, priority: Priority })
