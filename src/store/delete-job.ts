import { type Queryable, statement } from '../db/database.ts'

const DELETE = statement('delete_job', 'select sluice.delete_trees_v1(array[$1::bigint]) > 0 as deleted')

/** Removes a finished job with all its traces and everything below it. False when it, or something below it, has not finished, when it is part of another, or does not exist. */
export async function deleteJob(db: Queryable, id: string): Promise<boolean> {
  return (await db.run<{ deleted: boolean }>(DELETE, [id]))[0]!.deleted
}
