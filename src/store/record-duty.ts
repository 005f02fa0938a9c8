import { type Queryable, statement } from '../db/database.ts'

const RECORD = statement('record_duty', 'update sluice.duties set summary = $2 where name = $1')

/** Keeps what a duty did in its last tick, for operators to see. */
export async function recordDuty(
  db: Queryable,
  name: string,
  summary: Readonly<Record<string, unknown>>,
): Promise<void> {
  await db.run(RECORD, [name, JSON.stringify(summary)])
}

const FAILED = statement(
  'record_duty_failure',
  'update sluice.duties set failed_at = clock_timestamp(), error = left($2, 500) where name = $1',
)

/** Keeps why a duty failed. It counts as failing until somebody does it again. */
export async function recordDutyFailure(db: Queryable, name: string, error: string): Promise<void> {
  await db.run(FAILED, [name, error])
}
