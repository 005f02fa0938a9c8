import { type Queryable, statement } from '../db/database.ts'

export interface StartedInstances {
  readonly instances: readonly { readonly member: number; readonly id: string }[]
  readonly failures: readonly { readonly member: number; readonly message: string }[]
}

const NOTE = statement('record_started_instances', 'select sluice.record_started_v1($1, $2, $3) as open')

/** Keeps what a provisioner answered to a request. False: the request has ended meanwhile, and its instances are to be stopped. */
export async function recordStartedInstances(
  db: Queryable,
  id: string,
  started: StartedInstances,
): Promise<boolean> {
  const { instances, failures } = started
  const values = [id, JSON.stringify(instances), JSON.stringify(failures)]
  return (await db.run<{ open: boolean }>(NOTE, values))[0]!.open
}
