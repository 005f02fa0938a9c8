import type { Change } from './commit-stream.ts'

export type FleetRule = 'minimum of a pool'

interface ReplayedWorker {
  readonly pool: string | null
  readonly leaving: string | null
  readonly taking: boolean
}

/** Replays pools and their workers, and tells where one was let go of its own accord that its pool could not spare. */
export class FleetChecker {
  /** How often a worker left, to see that the rule was put to the test. */
  readonly seen = { left: 0 }
  readonly #report: (rule: FleetRule, what: string) => void
  readonly #minimum = new Map<string, number>()
  readonly #workers = new Map<string, ReplayedWorker>()

  constructor(report: (rule: FleetRule, what: string) => void) {
    this.#report = report
  }

  begin(changes: readonly Change[]): void {
    for (const change of changes) this.#apply(change, new Set())
  }

  apply(changes: readonly Change[]): void {
    const left = new Set<string>()
    for (const change of changes) this.#apply(change, left)
    for (const pool of left) {
      this.seen.left++
      const minimum = this.#minimum.get(pool) ?? 0
      const taking = [...this.#workers.values()].filter((each) => each.pool === pool && each.taking).length
      if (taking < minimum)
        this.#report('minimum of a pool', `${taking} of at least ${minimum} are left in ${pool}`)
    }
  }

  #apply({ table, kind, row }: Change, left: Set<string>): void {
    if (table === 'sluice.pools') {
      if (kind === 'DELETE') this.#minimum.delete(row.name!)
      else this.#minimum.set(row.name!, Number(row.min))
      return
    }
    if (table !== 'sluice.workers') return
    const id = row.id!
    if (kind === 'DELETE') {
      this.#workers.delete(id)
      return
    }
    const before = this.#workers.get(id)
    const { pool = null, leaving = null } = row
    this.#workers.set(id, { pool, leaving, taking: row.ended_at === null && row.draining === 'false' })
    if (before?.leaving === null && leaving !== null && pool !== null) left.add(pool)
  }
}
