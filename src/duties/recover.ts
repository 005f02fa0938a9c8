import { listUnreported } from '../store/list-unreported.ts'
import { recoverLostWorkers } from '../store/recover-lost-workers.ts'
import type { Duty } from './duty.ts'

const CLOSED =
  'PostgreSQL has recovered from a crash: jobs start again once these workers have reported, or their leases have ended'

const STEPPED_BACK =
  'the clock of PostgreSQL has stepped back: leases count from now on, and delays were moved back with it'

/** Takes over the jobs of workers that have gone silent. */
export const recover: Duty = {
  name: 'recover',
  everyMs: 1000,
  async run({ db, log, goodForMs }) {
    const { recovered, steppedBackMs } = await recoverLostWorkers(db, goodForMs)
    if (steppedBackMs !== undefined) {
      log.warn({ steppedBackMs }, STEPPED_BACK)
      return { summary: { steppedBackMs } }
    }
    for (const each of recovered) {
      if (each.requeued + each.failed + each.cancelled > 0)
        log.warn({ ...each }, 'took over the jobs of a silent worker')
    }
    const workers = await listUnreported(db)
    if (workers.length > 0) log.warn({ workers }, CLOSED)
    if (recovered.length === 0) return {}
    const sum = (field: 'requeued' | 'failed' | 'cancelled') =>
      recovered.reduce((total, each) => total + each[field], 0)
    return { summary: { requeued: sum('requeued'), failed: sum('failed'), cancelled: sum('cancelled') } }
  },
}
