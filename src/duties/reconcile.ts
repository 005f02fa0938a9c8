import { reconcileBudgets } from '../store/reconcile-budgets.ts'
import { recordRecovery } from '../store/record-recovery.ts'
import { repairOrphans } from '../store/repair-orphans.ts'
import { wakeStuckComposites } from '../store/wake-stuck-composites.ts'
import type { Duty } from './duty.ts'

const NOTHING = { worker: null, lane: null, jobs: 0, jobIds: [], detail: null }

/**
 * Compares the slots that workers hold with the jobs that run, and repairs any difference. Deletes records that no longer count against budgets,
 * and finds jobs that draw from no budget although their task does. Wakes workflows that do not move.
 *
 * Each difference, each such job and each stuck workflow is a bug in Sluice, so the duty logs it as an error and records it.
 */
export const reconcile: Duty = {
  name: 'reconcile',
  everyMs: 30_000,
  async run({ db, log }) {
    const note = (detail: string, lane: string | null) =>
      recordRecovery(db, { ...NOTHING, kind: 'drift', lane, detail })
    const drift = await repairOrphans(db)
    for (const each of drift) {
      log.error({ ...each }, 'DRIFT: more ran than was held; repaired')
      // Worker 0 stands for jobs that ran under no worker. They were recorded when they were taken over.
      if (each.workerId !== '0')
        await note(`worker ${each.workerId} ran ${each.running} and held ${each.held}`, each.lane)
    }
    const undrawn = await reconcileBudgets(db)
    for (const each of undrawn) {
      log.error({ ...each }, 'DRIFT: a job draws from no budget though its task says so')
      await note(`${each.what}: ${each.subject}`, null)
    }
    const healed = await wakeStuckComposites(db)
    if (healed > 0) {
      log.error({ healed }, 'DRIFT: workflows stood still; woken')
      await recordRecovery(db, { ...NOTHING, kind: 'healed', jobs: healed })
    }
    const found = drift.length + undrawn.length
    return found + healed === 0 ? {} : { summary: { drift: found, healed } }
  },
}
