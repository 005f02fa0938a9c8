import { quantity } from '../amount.ts'
import { MAX_STORED_MS } from '../limits.ts'
import { duration, number } from '../setting-value.ts'
import { field, type StoredFields, type WrittenFields } from './field.ts'

/** The upper bound keeps the product with the longest load a valid date. */
const MAX_QUANTUM = 1_000_000

/** The fields of a budget that operators change too. A config file gives `capacity` as the budget itself: `licences: 3`. */
export const BUDGET_FIELDS = {
  /** The amount of a budget for the whole system, such as 3 or 24GB. */
  capacity: field('capacity', quantity, {
    text: 'The amount of a budget for the whole system, such as 3 or 24GB',
  }),
  /** The amount to leave free on each device, as measured. */
  safety: field('safety', quantity, {
    text: 'The amount to leave free on each device, as measured',
    more: 'The default is 512MB if GPUs are read, else 0.',
    default: 0,
  }),
  /** How long a model serves before another may replace it, as a multiple of its load time. */
  quantum: field('quantum', number({ min: 0, max: MAX_QUANTUM }), {
    text: 'How long a model serves before another may replace it, as a multiple of its load time',
    default: 12,
  }),
  /** How long a model waits before it may replace another. */
  maxWait: field('maxWaitMs', duration({ min: 1, max: MAX_STORED_MS }), {
    text: 'How long a model waits before it may replace another',
    more: 'If the loaded model still has jobs, it is replaced one quantum later, or after a second `maxWait`, whichever is shorter.',
    default: 180_000,
  }),
} as const

/** The fields of a budget as an operator writes them. */
export interface BudgetFieldsSource extends WrittenFields<typeof BUDGET_FIELDS> {}

/** Their values, as they are stored. */
export interface BudgetValues extends StoredFields<typeof BUDGET_FIELDS> {}
