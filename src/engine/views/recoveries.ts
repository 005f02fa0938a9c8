import type { Queryable } from '../../db/database.ts'
import type { RecoveryKind } from '../../model/recovery.ts'
import { countRecoveries, listRecoveries, type RecoveryView } from '../../store/list-recoveries.ts'

export type RecoveryCounts = Readonly<Record<RecoveryKind, number>>

export interface Recoveries {
  /** Newest first. */
  readonly events: readonly RecoveryView[]
  /** `null`: nothing follows. */
  readonly next: string | null
  readonly lastHour: RecoveryCounts
  readonly lastDay: RecoveryCounts
}

const NONE: RecoveryCounts = { taken_over: 0, late_write: 0, orphan: 0, drift: 0, healed: 0 }
const NEWEST = '9223372036854775807'

/** What the engine had to put right: kept as long as finished jobs are, the newest 10,000 at most. */
export async function readRecoveries(
  db: Queryable,
  options: {
    readonly kind?: RecoveryKind | undefined
    readonly before?: string | undefined
    readonly limit: number
  },
): Promise<Recoveries> {
  const { kind, before = NEWEST, limit } = options
  const events = await listRecoveries(db, before, kind ?? null, limit)
  const totals = await countRecoveries(db)
  const within = (span: 'hour' | 'day') => ({
    ...NONE,
    ...Object.fromEntries(totals.map((each) => [each.kind, each[span]])),
  })
  return {
    events,
    next: events.length === limit ? events.at(-1)!.id : null,
    lastHour: within('hour'),
    lastDay: within('day'),
  }
}
