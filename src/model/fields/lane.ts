import { MAX_PREFETCH, MAX_TIMER_MS } from '../limits.ts'
import { choice, count, duration, flag, noLessThan, orNone, orWord } from '../setting-value.ts'
import { field, type StoredFields, type WrittenFields } from './field.ts'

/**
 * The fields of a lane. Their bounds are those of the table in the database.
 *
 * The comment of a field is what editors show in a config file in TypeScript, and says the same as its text.
 */
export const LANE_FIELDS = {
  /** Jobs at once in the whole system. */
  slots: field('slots', orNone(count({ min: 0 })), {
    text: 'Jobs at once in the whole system',
    more: '0: no job starts.',
    defaultText: 'see below',
  }),
  /** Jobs at once in each worker. */
  perWorker: field('perWorker', orNone(orWord(orWord(count({ min: 0 }), 'cores', 0), 'capacity', -1)), {
    text: 'Jobs at once in each worker',
    more:
      "`cores` (or 0): the number of cores of the worker's machine. `capacity` (or -1): the capacity of the worker, or its number of cores if " +
      'its capacity has no limit.',
    defaultText: 'see below',
  }),
  /** How often an idle worker polls this lane for work that no notification announced. */
  poll: field('pollMs', noLessThan(duration({ min: 0, max: 3_600_000 }), 10), {
    text: 'How often an idle worker polls this lane for work that no notification announced',
    more:
      'The minimum is 10 ms; smaller values, including 0, mean 10 ms. Every poll of a worker includes the lanes that draw from budgets, because ' +
      'Sluice plans their jobs together.',
    defaultText: 'see below',
  }),
  /** How long a lease lasts without a heartbeat; more than twice the heartbeat. */
  stale: field('staleMs', duration({ min: 1, max: MAX_TIMER_MS }), {
    text: 'How long a lease lasts without a heartbeat; more than twice the heartbeat',
    defaultText: 'the setting `stale`',
  }),
  /** False pauses the lane: running jobs finish, and no new job starts. */
  enabled: field('enabled', flag, {
    text: 'False pauses the lane: running jobs finish, and no new job starts',
    default: true,
    hasOption: false,
  }),
  /** Raises the priority of a waiting job by 1 every interval. */
  ageing: field('ageingMs', orNone(duration({ min: 10_000, max: MAX_TIMER_MS })), {
    text: 'Raises the priority of a waiting job by 1 every interval',
    default: null,
  }),
  /** Which of several free workers gets a job: the first (fill), or the one that runs the fewest jobs (spread). */
  placement: field('placement', choice('fill', 'spread'), {
    text: 'Which of several free workers gets a job: the first (fill), or the one that runs the fewest jobs (spread)',
    more: 'With `fill`, the last workers in the [worker order](../guides/fleet.md#worker-order) become idle.',
    default: 'fill',
  }),
  /** Jobs that a worker is assigned beyond its slots. */
  prefetch: field('prefetch', orWord(count({ min: 0, max: MAX_PREFETCH }), 'off', 0), {
    text: 'Jobs that a worker is assigned beyond its slots',
    more:
      'With them, the worker does not have to ask the database between two short jobs. In all its lanes together, it is assigned at most 4000 ' +
      'jobs. It never runs more jobs than its slots. See [Prefetch](../guides/lanes-and-limits.md#prefetch).',
    default: 1000,
  }),
} as const

export type LaneField = keyof typeof LANE_FIELDS

/** The fields of a lane as a config file or a caller writes them. */
export interface LaneSource extends WrittenFields<typeof LANE_FIELDS> {}

/** Their values, as they are stored. */
export interface LaneValues extends StoredFields<typeof LANE_FIELDS> {}

/** The lanes that always exist, as the database starts with them. */
export const LANE_DEFAULTS = {
  interactive: { slots: 2, perWorker: null, pollMs: 2000 },
  maintenance: { slots: 1, perWorker: null, pollMs: 15_000 },
  system: { slots: 1, perWorker: null, pollMs: 30_000 },
  default: { slots: null, perWorker: -1, pollMs: 2000 },
} as const satisfies Readonly<Record<string, Pick<LaneValues, 'slots' | 'perWorker' | 'pollMs'>>>
