import { type Queryable, statement } from '../db/database.ts'

export interface LogBound {
  /** The highest id given out. */
  readonly bound: number
  /** Transactions that may hold lines up to there which are not committed. */
  readonly writers: readonly string[]
}

const READ = statement('read_log_bound', 'select bound::float8, writers from sluice.log_bound_v1()')

/** How far log lines can be read, once the writers have gone. */
export async function readLogBound(db: Queryable): Promise<LogBound> {
  return (await db.run<LogBound & Record<string, unknown>>(READ))[0]!
}
