import { Type } from 'typebox'
import { MAX_KEY, MAX_TAG, MAX_TAGS, NAME_PATTERN, NAME_RULE, PRIORITY_RANGE } from '../model/limits.ts'

/**
 * Texts and numbers that many bodies share.
 *
 * Where there is a pattern, `x-rule` describes it in words, for the message that rejects a value.
 */

export const JobId = Type.String({
  pattern: '^[1-9][0-9]{0,18}$',
  'x-rule': 'the id of a job, a whole number such as 42',
  description: 'Id of a job: a whole number, as text',
  examples: ['42'],
})

/** Names of lanes, tasks, workflows, roles and schedules. */
export const Name = Type.String({
  pattern: NAME_PATTERN.source,
  'x-rule': NAME_RULE,
  examples: ['resize'],
})

export const Priority = Type.Integer({ minimum: PRIORITY_RANGE.min, maximum: PRIORITY_RANGE.max })
export const Key = Type.String({ minLength: 1, maxLength: MAX_KEY })
export const Tag = Type.String({ minLength: 1, maxLength: MAX_TAG })
export const Tags = Type.Array(Tag, { maxItems: MAX_TAGS })

export const Timestamp = Type.String({ format: 'date-time', examples: ['2031-05-01T08:00:00.000Z'] })

/** A type list and not a union with null, because validators then give a better message and serializers are faster. */
export const TimestampOrNull = Type.Unsafe<string | null>({ type: ['string', 'null'], format: 'date-time' })
export const TextOrNull = Type.Unsafe<string | null>({ type: ['string', 'null'] })
export const NumberOrNull = Type.Unsafe<number | null>({ type: ['number', 'null'] })
export const WholeOrNull = Type.Unsafe<number | null>({ type: ['integer', 'null'] })

/** Any JSON. */
export const Json = Type.Unknown({ description: 'Any JSON' })

/** How long a job may wait to start. */
export const Deadline = Type.Unsafe<string | number | null>({
  type: ['string', 'number', 'null'],
  description:
    'How long it may wait to start: a duration such as "15s" or "4h", or a number of milliseconds; "none" or null: for ever. ' +
    'Default: the deadline of its task',
  examples: ['4h'],
})

/** A duration as files and options write it. */
export const Duration = Type.Unsafe<string | number>({
  type: ['string', 'number'],
  description: 'A duration such as "250ms", "15s", "10m", "4h", "7d", or a number of milliseconds',
  examples: ['15s'],
})
