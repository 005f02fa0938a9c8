import type { Client } from 'pg'
import type { Sql } from '../database.ts'

/** Moves the start deadlines of jobs to so many seconds from now; negative: they have passed. */
export async function plantDeadline(sql: Sql, ids: readonly string[], seconds: number): Promise<void> {
  await sql(
    'update sluice.jobs set deadline_at = clock_timestamp() + make_interval(secs => $2) where id = any ($1::bigint[])',
    [ids, seconds],
  )
}

/** The tables that jobs are in. */
export const JOB_TABLES = 'sluice.job_data, sluice.queue, sluice.claims, sluice.outcomes, sluice.job_keys'

/** The same with everything that jobs leave behind. No foreign key ties these tables together, so a truncate names them all. */
export const ALL_JOB_TABLES = `${JOB_TABLES}, sluice.composites, sluice.chunks, sluice.attempts, sluice.attempt_errors, sluice.steps, sluice.notes, sluice.logs, sluice.traces, sluice.priority_changes`

/** Deletes every job, as if the database were new. */
export async function forgetJobs(sql: Sql): Promise<void> {
  await sql('delete from sluice.jobs')
}

/** Makes a job that waits for its time due now. */
export async function plantDue(sql: Sql, id: string): Promise<void> {
  await sql('update sluice.jobs set ready_at = clock_timestamp() where id = $1', [id])
}

/** When the attempt that a job is in was claimed. */
export async function readStart(sql: Sql, id: string): Promise<Date> {
  const [row] = await sql<{ started_at: Date }>('select started_at from sluice.jobs where id = $1', [id])
  return row!.started_at
}

/** As if so many claims of a waiting job had been lost: its next attempt has the number after them. */
export async function plantLostClaims(sql: Sql, id: string, claims: number): Promise<void> {
  await sql('update sluice.jobs set attempt = attempt + $2 where id = $1', [id, claims])
}

/** Gives a job an input of so many characters. */
export async function plantInput(sql: Sql, id: string, characters: number): Promise<void> {
  await sql(`update sluice.jobs set input = to_jsonb(repeat('x', $2)) where id = $1`, [id, characters])
}

/** Gives the completed children of a job results of so many characters each. They take little room on disk. */
export async function plantResults(sql: Sql, parent: string, characters: number): Promise<void> {
  await sql(
    `update sluice.jobs set result = to_jsonb(repeat('x', $2)) where parent_id = $1 and state = 'completed'`,
    [parent, characters],
  )
}

/** Begins a transaction that holds the claim of a running job, as somebody does who looks at it `for update` and forgets to commit. */
export async function lockRunningJob(client: Client, id: string): Promise<void> {
  await client.query('begin')
  const { rowCount } = await client.query(
    'select 1 from sluice.claims where ids @> array[$1::bigint] for update',
    [id],
  )
  if (rowCount !== 1) throw new Error(`job ${id} does not run`)
}

/** Begins a transaction that holds a workflow's own row, as a cancel does before it looks for the job. */
export async function lockComposite(client: Client, id: string): Promise<void> {
  await client.query('begin')
  await client.query('select 1 from sluice.composites where job_id = $1 for no key update', [id])
}

/** Does what the duty `promote` does, within two seconds. Gives how many jobs it promoted. */
export async function promoteDue(sql: Sql): Promise<number> {
  await sql(`set statement_timeout = '2s'`)
  const [row] = await sql<{ promoted: number }>('select promoted from sluice.promote_due_v1(10)')
  await sql('reset statement_timeout')
  return row!.promoted
}
