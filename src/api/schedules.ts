import { type Static, Type } from 'typebox'
import { Readable } from './jobs.ts'
import {
  JobId,
  Json,
  Name,
  NumberOrNull,
  TextOrNull,
  Timestamp,
  TimestampOrNull,
  WholeOrNull,
} from './scalars.ts'

const Overlap = Type.Unsafe<'allow' | 'skip'>({
  type: 'string',
  enum: ['allow', 'skip'],
  description: 'skip: no new job while an earlier one of this schedule has not ended',
})
const SkipReason = Type.Unsafe<'ceiling' | 'overlap' | 'disabled' | 'missed' | 'refused' | null>({
  type: ['string', 'null'],
  enum: ['ceiling', 'overlap', 'disabled', 'missed', 'refused', null],
  description: 'Why there is no job',
})
const JobIdOrNull = Type.Unsafe<string | null>({ type: ['string', 'null'] })

export const ScheduleParams = Type.Object(
  { name: { ...Name, examples: ['nightly'] } },
  { additionalProperties: false },
)

export const ScheduleBody = Type.Object({
  name: Name,
  task: TextOrNull,
  workflow: TextOrNull,
  cron: Type.String(),
  timezone: Type.String(),
  input: Json,
  key: TextOrNull,
  priority: WholeOrNull,
  lane: TextOrNull,
  tags: Type.Array(Type.String()),
  deadlineMs: Type.Unsafe<number | null>({ ...NumberOrNull, description: '0: none; null: as its task says' }),
  enabled: Type.Boolean(),
  overlap: Overlap,
  catchUp: Type.Integer(),
  nextAt: TimestampOrNull,
  last: Type.Unsafe<{
    tickAt: string
    jobId: string | null
    skipped: Static<typeof SkipReason>
    reason: string | null
  } | null>({
    type: ['object', 'null'],
    description: 'How its latest firing went',
    properties: { tickAt: Timestamp, jobId: JobIdOrNull, skipped: SkipReason, reason: TextOrNull },
    required: ['tickAt', 'jobId', 'skipped', 'reason'],
  }),
  declared: Type.Boolean({ description: 'Files or programs speak of it' }),
  operatorSet: Type.Array(Type.String(), {
    description: 'Fields an operator set: files and programs leave them alone',
  }),
  owner: Type.String({ description: 'Who its jobs belong to' }),
  createdAt: Timestamp,
  updatedAt: Timestamp,
  updatedBy: Type.String(),
})
export type ScheduleBody = Static<typeof ScheduleBody>

export const ScheduleList = Type.Object({
  schedules: Type.Array(ScheduleBody, { description: 'By name' }),
  next: Type.Unsafe<string | null>({
    type: ['string', 'null'],
    description: 'The `after` of the next page; null when nothing follows',
  }),
})
export type ScheduleList = Static<typeof ScheduleList>

export const ScheduleListQuery = Type.Object(
  {
    after: Type.Optional(Type.String({ ...Name, description: 'Those whose names come after this one' })),
    limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 1000, default: 1000 })),
  },
  { additionalProperties: false },
)

export const NextTicksQuery = Type.Object(
  { count: Type.Optional(Type.Integer({ minimum: 1, maximum: 100, default: 10 })) },
  { additionalProperties: false },
)

export const NextTicksBody = Type.Object({
  ticks: Type.Array(Type.Object({ at: Timestamp }), {
    description: 'When it fires next, the first first; while it is disabled these go by',
  }),
})
export type NextTicksBody = Static<typeof NextTicksBody>

export const FiringBody = Type.Object({
  id: Type.String(),
  tickAt: Timestamp,
  since: TimestampOrNull,
  ticks: Type.Integer({ description: 'How many ticks this stands for; 1000: at least that many' }),
  firedAt: Timestamp,
  jobId: JobIdOrNull,
  attached: Type.Boolean({ description: "The job was there already, with the schedule's key" }),
  skipped: SkipReason,
  reason: TextOrNull,
  askedBy: Type.Unsafe<string | null>({
    type: ['string', 'null'],
    description: 'Who fired it by hand; null for the clock',
  }),
})
export type FiringBody = Static<typeof FiringBody>

export const FiringList = Type.Object({
  firings: Type.Array(FiringBody),
  next: Type.Unsafe<string | null>({
    type: ['string', 'null'],
    description: 'Give it as before for the next page',
  }),
})

export type FiringList = Static<typeof FiringList>

export const FiringQuery = Type.Object(
  {
    before: Type.Optional(
      Type.String({
        pattern: '^[1-9][0-9]{0,17}$',
        'x-rule': 'the `next` of the page before, a whole number',
      }),
    ),
    limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 1000, default: 50 })),
  },
  { additionalProperties: false },
)

export const FiredBody = Type.Object({ id: JobId, attached: Type.Boolean(), readable: Readable })
export type FiredBody = Static<typeof FiredBody>
