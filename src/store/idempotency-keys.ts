import { type Queryable, statement } from '../db/database.ts'

export interface Repeat {
  /** False: somebody is at it right now. */
  readonly mine: boolean
  /** Hash of the request that was answered, and the answer; `null` when there was none. */
  readonly hash: Buffer | null
  readonly answer: unknown
}

// What has expired and is not pruned yet makes room for the new answer.
const TAKE = statement(
  'take_idempotency_key',
  `with expired as (
     delete from sluice.idempotency where owner = $1 and key = $2 and created_at < clock_timestamp() - make_interval(secs => $3)
     returning 1
   )
   select pg_try_advisory_xact_lock(hashtextextended($1::text || chr(10) || $2::text, 7)) as mine,
          i.request_hash as hash, i.answer
     from (select count(*) as n from expired) e
     left join sluice.idempotency i on i.owner = $1 and i.key = $2 and e.n = 0`,
)
const KEEP = statement(
  'keep_answer',
  `insert into sluice.idempotency (owner, key, request_hash, answer) values ($1, $2, $3, $4::text::jsonb)
   on conflict do nothing returning 1 as kept`,
)
const PRUNE = statement(
  'prune_answers',
  'delete from sluice.idempotency where created_at < statement_timestamp() - make_interval(secs => $1)',
)

/** Takes a key for the rest of the transaction, and tells what was answered under it before. */
export async function takeIdempotencyKey(
  tx: Queryable,
  owner: string,
  key: string,
  keepSeconds: number,
): Promise<Repeat> {
  return (await tx.run<Repeat & Record<string, unknown>>(TAKE, [owner, key, keepSeconds]))[0]!
}

/**
 * @param answer JSON text.
 * @returns false when somebody else has answered since the key was taken.
 */
export async function keepAnswer(
  tx: Queryable,
  owner: string,
  key: string,
  hash: Buffer,
  answer: string,
): Promise<boolean> {
  return (await tx.run(KEEP, [owner, key, hash, answer])).length === 1
}

/** Deletes answers that were given this long ago. */
export async function pruneAnswers(db: Queryable, keepSeconds: number): Promise<void> {
  await db.run(PRUNE, [keepSeconds])
}
