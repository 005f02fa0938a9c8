import type { Retried, TreeRetryOptions } from './retry-tree.ts'

/** Ids that one line of the audit names; `only` may have any number. */
const MOST_NAMED = 100

/** What the audit says of a retry. Of many named jobs it has the first hundred, and how many there were. */
export function retryFacts({ refused, ...retried }: Retried, { failed, from, only }: TreeRetryOptions) {
  return {
    ...retried,
    failed,
    from,
    ...(only !== undefined && { only: only.slice(0, MOST_NAMED), named: only.length }),
    ...(refused.length > 0 && { refused: refused.length }),
  }
}
