import { type Queryable, statement } from '../db/database.ts'

const CHECK = statement('check_deferred', 'set constraints all immediate')

/** Does now what a transaction has put off until COMMIT: the ceiling of admission rejects here what it would reject there. */
export async function checkDeferred(tx: Queryable): Promise<void> {
  await tx.run(CHECK)
}
