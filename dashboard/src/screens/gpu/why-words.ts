import type { Budgets } from '../../../../src/client/index.ts'

type Why = Budgets['queues'][number]['why']

/** Short, for a column; the whole reason stands beside it. */
export const WHY_WORDS: Readonly<Record<Why, string>> = {
  starts: 'Starts next',
  next: 'Next',
  parallel: 'When a job ends',
  'warm-elsewhere': 'Loaded elsewhere',
  behind: 'Behind another',
  held: 'Reserved',
  'shared-full': 'Budget is full',
  'no-capacity': 'No free slot',
  'lane-full': 'Lane is full',
  'too-big': 'Too large',
  'no-worker': 'No worker',
}

/** A reason without the moment at its end, which is for programs: people are told how long that is from now. */
export function withoutTime(reason: string): string {
  return reason.replace(/; estimated start \d{4}-\S+$/, '')
}
