import { type Queryable, statement } from '../db/database.ts'

const END = statement('end_session', 'delete from sluice.sessions where id = $1')

export async function endSession(tx: Queryable, id: string): Promise<void> {
  await tx.run(END, [id])
}
