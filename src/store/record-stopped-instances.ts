import { type Queryable, statement } from '../db/database.ts'

// Somebody who took over meanwhile has raised the number of tries: then it is theirs to say.
const NOTE = statement(
  'record_stopped_instances',
  `update sluice.fleet_decisions set stop_at = clock_timestamp() + make_interval(secs => $3::float8 / 1000)
    where id = $1 and stop_tries = $2 and stop_at is not null`,
)

/** Keeps what became of an attempt to stop instances. `againMs`: when to try again; `null`: they are stopped, or given up. */
export async function recordStoppedInstances(
  db: Queryable,
  left: { readonly id: string; readonly tries: number },
  againMs: number | null,
): Promise<void> {
  await db.run(NOTE, [left.id, left.tries, againMs])
}
