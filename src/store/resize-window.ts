import { type Queryable, statement } from '../db/database.ts'

const RESIZE = statement('resize_window', 'select before, after from sluice.resize_window_v1($1, $2)')

/**
 * Changes how many children of a fan-out may be in flight.
 *
 * @param size `null`: as many as before it was paused.
 * @returns `undefined` when it has no window or has ended.
 */
export async function resizeWindow(
  db: Queryable,
  id: string,
  size: number | null,
): Promise<{ before: number; after: number } | undefined> {
  return (await db.run<{ before: number; after: number }>(RESIZE, [id, size]))[0]
}
