import { type Queryable, statement } from '../db/database.ts'

const LIST = statement(
  'list_unreported',
  `select w.name from sluice.generation g join sluice.workers w on w.ended_at is null and w.generation is distinct from g.id
    where not g.claims_open order by w.name limit 20`,
)

/** Names of up to 20 workers that were alive at the last crash of the server and have not said yet what they run. Until then nobody claims. */
export async function listUnreported(db: Queryable): Promise<string[]> {
  return (await db.run<{ name: string }>(LIST)).map(({ name }) => name)
}
