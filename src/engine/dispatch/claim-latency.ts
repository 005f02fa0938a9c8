import type { Queryable } from '../../db/database.ts'
import { recentClaims } from '../../store/recent-claims.ts'

/** Jobs looked at in one go. */
const MOST = 2000

/** Looks now and then at how long jobs took from when they could start to when they did. */
export class ClaimLatency {
  readonly #db: Queryable
  #since: string | null = null

  constructor(db: Queryable) {
    this.#db = db
  }

  /** Those that started since the last look; of the first look none. */
  async look(): Promise<readonly { readonly lane: string; readonly seconds: number }[]> {
    const { claims, at } = await recentClaims(this.#db, this.#since, MOST)
    this.#since = at
    return claims
  }
}
