import { type Queryable, statement } from '../db/database.ts'

const RESIZE = statement('resize_window', 'select sluice.resize_window_v1($1, $2) as before')

/** Changes how many children of a fan-out may be in flight. Answers how many it was; `undefined` when it has no window or has ended. */
export async function resizeWindow(db: Queryable, id: string, size: number): Promise<number | undefined> {
  return (await db.run<{ before: number | null }>(RESIZE, [id, size]))[0]!.before ?? undefined
}
