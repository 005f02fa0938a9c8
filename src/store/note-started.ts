import { type Queryable, statement } from '../db/database.ts'

export interface StartedInstances {
  readonly instances: readonly { readonly member: number; readonly id: string }[]
  readonly failures: readonly { readonly member: number; readonly message: string }[]
}

const NOTE = statement(
  'note_started',
  `update sluice.fleet_decisions set started = jsonb_array_length($2::jsonb), instances = $2::jsonb, failures = $3::jsonb, looked_at = clock_timestamp()
    where id = $1 and ended_at is null returning id`,
)

/** Keeps what a provisioner answered to a request. False: the request has ended meanwhile. */
export async function noteStarted(db: Queryable, id: string, started: StartedInstances): Promise<boolean> {
  const { instances, failures } = started
  return (await db.run(NOTE, [id, JSON.stringify(instances), JSON.stringify(failures)])).length > 0
}
