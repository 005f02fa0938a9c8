import { type Queryable, statement } from '../db/database.ts'

const TAKE = statement('take_request', 'select sluice.take_request_v1($1, $2) as taken')

/** Takes over an open request whose provisioner nobody calls any more. False: somebody does, or it has been answered. */
export async function takeRequest(db: Queryable, id: string, callMs: number): Promise<boolean> {
  return (await db.run<{ taken: boolean }>(TAKE, [id, callMs]))[0]!.taken
}
