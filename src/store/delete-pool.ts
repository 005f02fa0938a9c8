import { type Queryable, statement } from '../db/database.ts'

/** What became of it: it is gone where it was found and nothing belongs to it. */
export interface DeletedPool {
  readonly found: boolean
  /** Live workers of it. */
  readonly workers: number
  /** Requests whose workers may still come, or whose instances have to be stopped. */
  readonly requests: number
}

const DELETE = statement('delete_pool', 'select sluice.delete_pool_v1($1) as deleted')

/** Deletes a pool with its decisions, unless workers of it live or may come. */
export async function deletePool(db: Queryable, name: string): Promise<DeletedPool> {
  return (await db.run<{ deleted: DeletedPool }>(DELETE, [name]))[0]!.deleted
}
