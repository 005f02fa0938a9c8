import { type Queryable, statement } from '../db/database.ts'

/** Of one key at a time; the oldest go. A page that signs in again and again fills no table. */
const MOST_SESSIONS = 100

// A session ends with its key at the latest. Both tables are only added to and deleted from, one row at a time.
const insertFor = (keys: string) => `, live as (
     select k.id, k.expires_at from sluice.api_keys k
      where k.id in (${keys}) and k.revoked_at is null and (k.expires_at is null or k.expires_at > statement_timestamp())
   ), surplus as (
     delete from sluice.sessions s where s.id in (
       select o.id from sluice.sessions o where o.key_id in (select id from live) order by o.id desc offset ${MOST_SESSIONS - 1})
   )
   insert into sluice.sessions (key_id, hash, expires_at)
   select id, $2, least(expires_at, statement_timestamp() + make_interval(secs => $3::float8 / 1000)) from live
   returning id`

const FOR_KEY = statement(
  'open_session',
  `with given as (select $1::bigint as id)${insertFor('select id from given')}`,
)
const BY_SIGN_IN = statement(
  'open_session_once',
  `with taken as (
     delete from sluice.sign_ins where hash = $1 returning key_id, expires_at > statement_timestamp() as good
   )${insertFor('select key_id from taken where good')}`,
)

/** False when the key is no longer good. */
export async function openSession(
  tx: Queryable,
  keyId: string,
  hash: Buffer,
  livesMs: number,
): Promise<boolean> {
  return (await tx.run(FOR_KEY, [keyId, hash, livesMs])).length > 0
}

/** Takes a token that is good for one session. False when somebody has taken it, or it or its key has expired. */
export async function openSessionOnce(
  tx: Queryable,
  signIn: Buffer,
  hash: Buffer,
  livesMs: number,
): Promise<boolean> {
  return (await tx.run(BY_SIGN_IN, [signIn, hash, livesMs])).length > 0
}
