import type { Queryable } from '../../db/database.ts'
import { recentClaims } from '../../store/recent-claims.ts'

/** The most jobs to read at once. */
const MOST = 2000

/** Samples how long jobs took from ready to started. */
export class ClaimLatency {
  readonly #db: Queryable
  #since: string | null = null

  constructor(db: Queryable) {
    this.#db = db
  }

  /** The jobs that started since the last call. The first call returns none. */
  async look(): Promise<readonly { readonly lane: string; readonly seconds: number }[]> {
    const { claims, at } = await recentClaims(this.#db, this.#since, MOST)
    this.#since = at
    return claims
  }
}
