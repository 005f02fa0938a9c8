import { checkLabels } from '../argument.ts'
import { toStorableJson } from '../json.ts'
import { MAX_STORED_MS } from '../limits.ts'
import { choice, count, duration, orNone, type Reader } from '../setting-value.ts'
import { field, type StoredFields, type WrittenFields } from './field.ts'

/** What workers of a pool offer to tasks with `requires`. */
export type Labels = Readonly<Record<string, string | number | boolean>>

const stored = duration({ min: 1, max: MAX_STORED_MS })

/** Reads a map, validates it with `check`, and stores it as JSON. */
function map<T extends object>(expected: string, check: (value: object) => void): Reader<T, T> {
  const read = (value: unknown) => {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return undefined
    try {
      check(value)
      return value as T
    } catch {
      return undefined
    }
  }
  return {
    read,
    readText: () => undefined,
    expected,
    bound: 'a map',
    format: (value) => JSON.stringify(value),
    placeholder: 'map',
    written: { type: 'object', additionalProperties: true },
    words: [],
    stored: { type: 'object', additionalProperties: true },
  }
}

/** The fields of a pool. Their bounds match the table `pools`. */
export const POOL_FIELDS = {
  /** The provisioner that starts workers for the pool. */
  provisioner: field('provisioner', choice('local', 'command', 'ecs', 'kubernetes'), {
    text: 'The provisioner that starts workers for the pool',
    more: 'See [provisioners](../guides/fleet.md#provisioners).',
    default: 'local',
    hasOption: false,
  }),
  /** The settings of the provisioner. */
  options: field(
    'options',
    map<Readonly<Record<string, unknown>>>('a map of settings of its provisioner', (value) => {
      toStorableJson(value, 'options')
    }),
    { text: 'The settings of the provisioner', default: {}, defaultText: '', hasOption: false },
  ),
  /** The labels of workers that the pool starts, for tasks with requires. */
  labels: field(
    'labels',
    map<Labels>('a map of text, numbers, true and false', (value) => {
      toStorableJson(checkLabels(value, 'labels'), 'labels')
    }),
    {
      text: 'The labels of workers that the pool starts, for tasks with requires',
      default: {},
      defaultText: '',
      hasOption: false,
    },
  ),
  /** Workers to keep even without jobs. */
  min: field('min', count({ min: 0 }), {
    text: 'Workers to keep even without jobs',
    more: 'Must not exceed `max`.',
    default: 0,
  }),
  /** The most workers at once. */
  max: field('max', count({ min: 0 }), { text: 'The most workers at once', default: 3 }),
  /** Jobs that each worker runs at once; 0: no limit. */
  capacity: field('capacity', count({ min: 0 }), {
    text: 'Jobs that each worker runs at once; 0: no limit',
    default: 1,
  }),
  /** A worker stops after this long without a job; none: it stays. */
  idle: field('idleMs', orNone(stored), {
    text: 'A worker stops after this long without a job; none: it stays',
    more: 'It also stays while the pool would have fewer than `min` workers without it.',
    default: 60_000,
  }),
  /** A worker stops after this long, once its jobs have ended; none: it stays. */
  lifetime: field('lifetimeMs', orNone(stored), {
    text: 'A worker stops after this long, once its jobs have ended; none: it stays',
    default: 86_400_000,
  }),
  /** The least time between two requests for workers. */
  cooldown: field('cooldownMs', duration({ min: 0, max: MAX_STORED_MS }), {
    text: 'The least time between two requests for workers',
    default: 10_000,
  }),
  /** How long a requested worker may take to register. */
  arrival: field('arrivalMs', stored, {
    text: 'How long a requested worker may take to register',
    default: 120_000,
  }),
} as const

const { provisioner: _, options: __, labels: ___, ...numbers } = POOL_FIELDS

/** What operators change. Who starts the workers, and how, is for the config of those who start them. */
export const POOL_NUMBERS = numbers

/** A pool as written in a config file or by a caller. */
export interface PoolSource extends WrittenFields<typeof POOL_FIELDS> {}

/** A pool with all its values. */
export interface PoolSettings extends StoredFields<typeof POOL_FIELDS> {}
