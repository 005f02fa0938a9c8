import { type Queryable, statement } from '../db/database.ts'

const NAME = statement('record_input_author', `select sluice.record_input_author_v1($1, $2, '')`)

/** Keeps with the root of a tree that somebody chose an input in it: they approve nothing of it. */
export async function recordInputAuthor(db: Queryable, root: string, by: string): Promise<void> {
  await db.run(NAME, [root, by])
}
