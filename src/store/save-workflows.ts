import { type Queryable, statement } from '../db/database.ts'

export interface WorkflowRecord {
  readonly name: string
  readonly hash: string
  readonly body: unknown
  /** The names of the tasks that a run of it can come to. */
  readonly tasks: readonly string[]
  readonly priority: number
  readonly deadlineMs: number | null
  readonly timeoutMs: number | null
}

// Sorted, so that processes that start together do not wait for each other in a circle.
const SAVE = statement(
  'save_workflows',
  `with given as materialized (
     select * from jsonb_to_recordset($1) as g(name text, hash text, body jsonb, tasks text[], priority integer, "deadlineMs" bigint, "timeoutMs" bigint)
      where (select sluice.claim_names_v1(array(select n.name from jsonb_to_recordset($1) as n(name text)), 'workflow'))
   ), graphs as (
     insert into sluice.graphs (hash, body, tasks) select distinct on (g.hash) g.hash, g.body, g.tasks from given g order by g.hash on conflict do nothing
   )
   insert into sluice.workflows as w (name, graph, priority, deadline_ms, timeout_ms)
   select g.name, g.hash, g.priority, g."deadlineMs", g."timeoutMs" from given g order by g.name
   on conflict (name) do update
      set graph = excluded.graph, priority = excluded.priority, deadline_ms = excluded.deadline_ms, timeout_ms = excluded.timeout_ms,
          updated_at = clock_timestamp()
    where (w.graph, w.priority, w.deadline_ms, w.timeout_ms)
          is distinct from (excluded.graph, excluded.priority, excluded.deadline_ms, excluded.timeout_ms)`,
)

/**
 * Makes workflows known, or brings what is known of them up to date. Runs under way keep their graph. Nothing is stored
 * where a task has one of the names (SL010).
 */
export async function saveWorkflows(db: Queryable, workflows: readonly WorkflowRecord[]): Promise<void> {
  await db.run(SAVE, [JSON.stringify(workflows)])
}
