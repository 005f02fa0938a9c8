import { type Static, Type } from 'typebox'
import { BUDGET_FIELDS } from '../model/fields/budget.ts'
import { storedProperties, writtenProperties } from './fields.ts'
import { Name, NumberOrNull, TextOrNull, Timestamp, TimestampOrNull } from './scalars.ts'

const STRICT = { additionalProperties: false } as const
const Count = (description: string) => Type.Integer({ description })
const Amount = (description: string) => Type.Number({ description })
const AmountOrNull = (description: string) => Type.Unsafe<number | null>({ ...NumberOrNull, description })

const WHY = [
  'starts',
  'next',
  'parallel',
  'warm-elsewhere',
  'behind',
  'held',
  'shared-full',
  'no-capacity',
  'lane-full',
  'too-big',
  'no-worker',
] as const

const outlook = {
  why: Type.Unsafe<(typeof WHY)[number]>({
    type: 'string',
    enum: [...WHY],
    description:
      'starts: on the next poll. next: what blocks it is about to be freed. parallel: its model is loaded, as jobs end. held: others hold the room. behind: the room is kept for another',
  }),
  reason: Type.String({ description: 'The same in words' }),
  need: AmountOrNull('On one device; null where that is not the matter'),
  room: AmountOrNull('What is free of it there'),
  heldBy: Type.Array(Type.String(), { description: 'Models that block it' }),
  holder: Type.Unsafe<string | null>({
    ...TextOrNull,
    description:
      'Who holds the rest of the device, where held: models, running jobs or programs outside Sluice',
  }),
  until: Type.Unsafe<string | null>({
    ...TimestampOrNull,
    description: 'When it is estimated to start; null: not known',
  }),
}

const Copy = Type.Object({
  model: Type.String(),
  worker: Type.String({ description: 'Name of the worker that has loaded it' }),
  amount: Amount('What it takes of this device'),
  devices: Type.Array(Type.String(), { description: 'All devices that this copy lies on' }),
  state: Type.Unsafe<'loading' | 'loaded' | 'unloading'>({
    type: 'string',
    enum: ['loading', 'loaded', 'unloading'],
    description: 'unloading: it gets no more jobs, and its memory is not free yet',
  }),
  since: Timestamp,
  running: Count('Jobs that run on it'),
  pinned: Type.Boolean({ description: 'Never unloaded to make room' }),
})

const Device = Type.Object({
  key: Type.String({ description: "A GPU's uuid, or HOST/NAME; empty for a shared budget" }),
  host: TextOrNull,
  name: Type.String(),
  total: AmountOrNull('What it has; null: not known, or without bounds'),
  limit: AmountOrNull("An operator's; null: none"),
  capacity: AmountOrNull('The smaller of the two'),
  held: Amount('Drawn from it by running jobs and loaded models'),
  heldByModels: Amount('The part of it that models take'),
  room: AmountOrNull('What may be drawn now, by what is held and what was measured; null: without bounds'),
  running: Count('Jobs that draw from it'),
  measuredUsed: AmountOrNull('By everybody, as measured; null: it is not measured'),
  measuredFree: AmountOrNull('As measured'),
  measuredAt: TimestampOrNull,
  ageMs: AmountOrNull('Of the measurement'),
  fresh: Type.Boolean({ description: 'The measurement is new enough to count' }),
  lostAt: Type.Unsafe<string | null>({
    ...TimestampOrNull,
    description: 'It was there and is gone: it gets no work',
  }),
  outOfMemory: Count('Attempts that ended because it had too little'),
  workers: Type.Array(Type.String(), { description: 'Live workers that offer it' }),
  copies: Type.Array(Copy),
  next: Type.Array(Type.Object({ task: Type.String(), model: TextOrNull, ...outlook }), {
    description: 'What waits for it, what is closest to its start first',
  }),
})

export const BudgetBody = Type.Object({
  name: Name,
  kind: Type.Unsafe<'shared' | 'device'>({
    type: 'string',
    enum: ['shared', 'device'],
    description: 'shared: one amount for the whole system',
  }),
  ...storedProperties(BUDGET_FIELDS),
  capacity: AmountOrNull('Of a shared one; null: without bounds'),
  auto: Type.Boolean({ description: 'Its devices are the GPUs of each machine' }),
  bytes: Type.Boolean({ description: 'Its amounts are bytes' }),
  operatorSet: Type.Array(Type.String(), {
    description:
      'Fields an operator changed: files leave them alone. limits: of some device, which tells it as its limit',
  }),
  updatedAt: Timestamp,
  updatedBy: Type.String(),
  devices: Type.Array(Device, { description: 'A shared budget has one, with an empty key' }),
})
export type BudgetBody = Static<typeof BudgetBody>

const Model = Type.Object({
  name: Type.String(),
  loadMs: AmountOrNull('To load it: declared first, then as seen'),
  runMs: AmountOrNull('One job, as seen'),
  amounts: Type.Unsafe<Record<string, number>>({
    ...Type.Record(Type.String(), Type.Number()),
    description: 'By budget: what it was seen to need on one device',
  }),
  pinned: Type.Boolean(),
  loads: Count('So far'),
  loadTotalMs: Amount('All its loads together'),
  swapsAvoided: Count(
    'Jobs that a loaded copy served past an older one whose model was not loaded, each of those counted once: strict order would have swapped',
  ),
  outOfMemory: Count('Attempts that ended for lack of memory'),
  copies: Count('Loaded, or about to be'),
  running: Type.Integer(),
  depth: Count('Jobs that could start and wait; exact up to 1,000 per task'),
  oldestAt: TimestampOrNull,
  waitedMs: Amount('How long the oldest has waited'),
})

const Queue = Type.Object({
  lane: Type.String(),
  task: Type.String(),
  model: TextOrNull,
  depth: Count('Exact up to 1,000'),
  oldestAt: Timestamp,
  waitedMs: Amount('How long the oldest has waited'),
  ...outlook,
})

export const BudgetsBody = Type.Object({
  budgets: Type.Array(BudgetBody),
  models: Type.Array(Model),
  queues: Type.Array(Queue, { description: 'Tasks that draw from budgets and have jobs waiting' }),
})
export type BudgetsBody = Static<typeof BudgetsBody>

export const BudgetParams = Type.Object({ name: { ...Name, examples: ['vram'] } }, STRICT)

const Quantity = {
  type: ['number', 'string'],
  minimum: 0,
  maxLength: 100,
  description: 'A number, or a size such as "20GB"',
}

export const BudgetChangeBody = Type.Object(
  {
    ...writtenProperties(BUDGET_FIELDS),
    limits: Type.Optional(
      Type.Unsafe<Record<string, number | string | null>>({
        type: 'object',
        maxProperties: 1000,
        additionalProperties: { ...Quantity, type: ['number', 'string', 'null'] },
        description:
          'The most that may be held of a device, by its key, or by its name on every machine; null: as much as it has',
      }),
    ),
  },
  { ...STRICT, minProperties: 1 },
)
export type BudgetChangeBody = Static<typeof BudgetChangeBody>

export const BudgetCreateBody = Type.Object(
  {
    name: Name,
    ...writtenProperties(BUDGET_FIELDS),
    capacity: Type.Unsafe<number | string>({
      ...Quantity,
      description: 'A number, or a size such as "24GB"',
    }),
  },
  STRICT,
)
export type BudgetCreateBody = Static<typeof BudgetCreateBody>
