import { type Queryable, statement } from '../db/database.ts'
import { selected } from '../model/fields/columns.ts'
import { POOL_FIELDS, type PoolSettings } from '../model/fields/pool.ts'

/** A pool with who is in it. */
export interface Pool extends PoolSettings {
  readonly name: string
  /** Workers of it that live and take jobs. */
  readonly workers: number
  /** Workers of it that live and take nothing new: on their way out, or drained by an operator. */
  readonly draining: number
  /** Jobs that they run. */
  readonly running: number
  /** Fields an operator changed. */
  readonly operatorSet: readonly string[]
  readonly updatedAt: Date
  readonly updatedBy: string
}

const LIST = statement(
  'list_pools',
  `select p.name, ${selected(POOL_FIELDS, 'p')},
          p.operator_set as "operatorSet", p.updated_at as "updatedAt", p.updated_by as "updatedBy",
          (count(w.id) filter (where not w.draining))::integer as workers, (count(w.id) filter (where w.draining))::integer as draining,
          coalesce(sum((select count(*) from sluice.running r where r.worker_id = w.id)), 0)::integer as running
     from sluice.pools p left join sluice.workers w on w.pool = p.name and w.ended_at is null
    group by p.name order by p.name`,
)

/** Every pool, by name. */
export async function listPools(db: Queryable): Promise<Pool[]> {
  return db.run<Pool & Record<string, unknown>>(LIST)
}
