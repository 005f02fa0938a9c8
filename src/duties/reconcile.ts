import { reconcileHoldings } from '../store/reconcile-holdings.ts'
import type { Duty } from './duty.ts'

/** Compares what workers hold with what really runs. Any difference is a bug: it is said loudly, then repaired. */
export const reconcile: Duty = {
  name: 'reconcile',
  everyMs: 30_000,
  async run({ db, log }) {
    const drift = await reconcileHoldings(db)
    for (const each of drift) log.error({ ...each }, 'DRIFT: more ran than was held; repaired')
    return drift.length === 0 ? {} : { summary: { drift: drift.length } }
  },
}
