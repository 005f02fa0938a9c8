import { type Queryable, statement } from '../db/database.ts'
import type { WorkerIdentity } from '../model/worker-identity.ts'

// By pool, since each insert locks its pool's row: two servers with the same pools in another order would wait for each other.
const REGISTER = statement(
  'register_workers',
  `with registered as materialized (
     select sluice.register_worker_v1(g.name, g.host, g.pid, g.version, g.capacity, g.cores, g.tasks, g.labels, g.pooled, g."keyId",
                                      g.rank, g.pool, g.request, g.build, g."processLimit") as id, g.place
       from (select *
               from rows from (jsonb_to_recordset($1) as (name text, host text, pid integer, version text, capacity integer,
                                 cores integer, tasks text[], labels jsonb, pooled text[], "keyId" bigint, rank integer, pool text,
                                 request text, build text, "processLimit" integer))
                    with ordinality as w(name, host, pid, version, capacity, cores, tasks, labels, pooled, "keyId", rank, pool,
                                         request, build, "processLimit", place)
              order by w.pool, w.place) g
   )
   select id from registered order by place`,
)

/**
 * Records new incarnations of workers and returns their ids, in the order given. All of them or none: where a pool may not have
 * one more of them, it fails.
 */
export async function registerWorkers(db: Queryable, workers: readonly WorkerIdentity[]): Promise<string[]> {
  const plain = {
    ...{ pooled: [], keyId: null, rank: 0, pool: null, request: null, build: null },
    processLimit: null,
  }
  const given = JSON.stringify(workers.map((worker) => ({ ...plain, ...worker })))
  const rows = await db.run<{ id: string }>(REGISTER, [given])
  return rows.map((row) => row.id)
}
