import { type Queryable, statement } from '../db/database.ts'

const SEND = statement('send_hint', `select pg_notify('sluice', $1)`)

/** Sends a hint to everybody who listens. A topic nobody knows is heard and ignored. */
export async function sendHint(db: Queryable, topic: string): Promise<void> {
  await db.run(SEND, [topic])
}
