import { healComposites } from '../store/heal-composites.ts'
import { reconcileBudgets } from '../store/reconcile-budgets.ts'
import { reconcileHoldings } from '../store/reconcile-holdings.ts'
import type { Duty } from './duty.ts'

/** Compares what workers hold with what really runs, removes what counts against budgets no more, and looks for workflows that stand still. Either is a bug: it is said loudly, then repaired. */
export const reconcile: Duty = {
  name: 'reconcile',
  everyMs: 30_000,
  async run({ db, log }) {
    const drift = await reconcileHoldings(db)
    for (const each of drift) log.error({ ...each }, 'DRIFT: more ran than was held; repaired')
    const undrawn = await reconcileBudgets(db)
    for (const each of undrawn)
      log.error({ ...each }, 'DRIFT: a job draws from no budget though its task says so')
    const healed = await healComposites(db)
    if (healed > 0) log.error({ healed }, 'DRIFT: workflows stood still; woken')
    const found = drift.length + undrawn.length
    return found + healed === 0 ? {} : { summary: { drift: found, healed } }
  },
}
