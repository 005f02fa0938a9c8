import type { Sql } from './database.ts'

/** A job of a tree, as it is stored. */
export interface StoredNode {
  readonly id: string
  readonly parent: string | null
  readonly kind: 'workflow' | 'group' | 'fanout' | null
  readonly state: string
  readonly step: string | null
  readonly place: number | null
  readonly input: unknown
  readonly result: unknown
  readonly error: string | null
  /** False for a step that ended as it was decided: skipped, or its input could not be made. */
  readonly began: boolean
}

/** The root first, and parents before their children. */
export async function readTree(sql: Sql, root: string): Promise<StoredNode[]> {
  return sql<StoredNode & Record<string, unknown>>(
    `with recursive tree as (
       select j.*, 0 as depth from sluice.jobs j where j.id = $1
       union all
       select k.*, t.depth + 1 from tree t join sluice.jobs k on k.parent_id = t.id and k.superseded_at is null
        where t.composite is not null
     )
     select id::text, parent_id::text as parent, composite as kind, state, step, idx as place, input, result, error,
            case when composite is null then attempt > 0
                 else exists (select 1 from sluice.composites c where c.job_id = tree.id) end as began
       from tree order by depth, parent_id, idx`,
    [root],
  )
}

/** How many jobs below a root are in each state. */
export async function countStates(
  sql: Sql,
  root: string,
  which = 'true',
): Promise<Readonly<Record<string, number>>> {
  const [row] = await sql<{ counts: Record<string, number> | null }>(
    `select jsonb_object_agg(state, n) as counts from (
       select state, count(*) as n from sluice.jobs where root_id = $1 and ${which} group by state) s`,
    [root],
  )
  return row!.counts ?? {}
}

/** The job of a step below a root, once it is there. */
export async function findStep(sql: Sql, root: string, step: string): Promise<string | undefined> {
  const rows = await sql<{ id: string }>(
    `select j.id::text from sluice.jobs j where j.root_id = $1 and j.step = $2 order by j.id limit 1`,
    [root, step],
  )
  return rows[0]?.id
}

/** What whoever took a composite and died has left is free at once: nobody has to wait for that here. */
export async function endMoments(sql: Sql): Promise<void> {
  await sql(`update sluice.composites set taken_until = clock_timestamp() - interval '1 second'
              where taken_until > clock_timestamp()`)
}
