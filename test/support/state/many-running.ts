import type { Sql } from '../database.ts'

/** A database in which many jobs run. */
export interface ManyRunning {
  /** Roots that run, in the order of their ids. */
  readonly roots: readonly string[]
  /** A fan-out: every other child of it runs, the others completed. */
  readonly fanOut: string
  /** Roots, a third of them each: completed, ready, running. The newest of all. */
  readonly mixed: readonly string[]
}

/**
 * Plants `count` jobs that run, in claims of `size`, under 50 workers and in a lane without a limit, with a fan-out of `children` and 60 roots
 * of mixed states. Neighbours are in different claims: 50 of them are in as many claims as there can be.
 */
export async function plantManyRunning(
  sql: Sql,
  { count, size, children }: { readonly count: number; readonly size: number; readonly children: number },
): Promise<ManyRunning> {
  await sql(`insert into sluice.lanes (name) values ('wide') on conflict do nothing`)
  const [row] = await sql<{ id: number }>(
    `insert into sluice.classes (lane, task) values ('wide', 'held') returning id`,
  )
  const classId = row!.id
  await sql(
    `insert into sluice.workers (id, name, host, pid, version, capacity, cores, tasks)
     select 1000 + n, 'holder ' || n, 'here', 1, '0', 0, 1, '{held}' from generate_series(0, 49) n`,
  )
  await sql(
    `insert into sluice.holdings (worker_id, lane) select id, 'wide' from sluice.workers where id >= 1000`,
  )
  const fill = async (jobs: number, parent: string | null, from: number) => {
    const rows = await sql<{ id: string }>(
      `insert into sluice.job_data (task, class_id, parent_id, root_id, idx)
       select 'held', $1, $2, $2, case when $2::bigint is not null then n - 1 end from generate_series(1, $3::integer) n order by n returning id`,
      [classId, parent, jobs],
    )
    return rows.map(({ id }) => id).slice(from)
  }
  const run = (ids: readonly string[], parent: string | null, seq: number, idxs: readonly number[] | null) =>
    sql(
      `insert into sluice.claims (worker_id, seq, class_id, started_at, ids, ready_ats, parents, idxs)
       select 1000 + c % 50, $4 + c, $2, now(), array_agg(j.id order by j.n), array_agg(now()),
              case when $5::bigint is not null then array_agg($5::bigint) end, case when $6::integer[] is not null then array_agg(j.idx order by j.n) end
         from (select i.id, i.idx, i.n, i.n % greatest(1, cardinality($1::bigint[]) / $3) as c
                 from unnest($1::bigint[], $6::integer[]) with ordinality i(id, idx, n)) j group by c`,
      [ids, classId, size, seq, parent, idxs],
    )
  const roots = await fill(count, null, 0)
  await run(roots, null, 1, null)
  const [fan] = await sql<{ id: string }>(
    `insert into sluice.job_data (task, composite) values ('wide', 'fanout') returning id`,
  )
  const fanOut = fan!.id
  const below = await fill(children, fanOut, 0)
  await sql(
    `insert into sluice.graphs (hash, body) values ('none', '{"workflows": {}}') on conflict do nothing`,
  )
  await sql(
    `insert into sluice.composites (job_id, graph, node, depth, total, completed, started_at)
     values ($1, 'none', 'wide', 0, $2, $2 / 2, now())`,
    [fanOut, children],
  )
  const odd = below.filter((_, n) => n % 2 === 1)
  await run(
    odd,
    fanOut,
    1_000_000,
    odd.map((_, n) => 2 * n + 1),
  )
  const end = (ids: readonly string[], root: boolean) =>
    sql(
      `insert into sluice.outcomes (id, class_id, state, ready_at, started_at, is_root, worker_id)
       select id, $2, 'completed', now(), now(), $3, 1000 from unnest($1::bigint[]) id`,
      [ids, classId, root],
    )
  await end(
    below.filter((_, n) => n % 2 === 0),
    false,
  )
  const mixed = await fill(60, null, 0)
  await end(
    mixed.filter((_, n) => n % 3 === 0),
    true,
  )
  await sql(`insert into sluice.queue (id, class_id) select id, $2 from unnest($1::bigint[]) id`, [
    mixed.filter((_, n) => n % 3 === 1),
    classId,
  ])
  await run(
    mixed.filter((_, n) => n % 3 === 2),
    null,
    2_000_000,
    null,
  )
  await sql('analyze sluice.job_data, sluice.queue, sluice.claims, sluice.outcomes')
  return { roots, fanOut, mixed }
}
