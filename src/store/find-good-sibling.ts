import { type Queryable, statement } from '../db/database.ts'

export interface GoodSibling {
  readonly id: string
  readonly index: number
  readonly input: unknown
}

const FIND = statement(
  'find_good_sibling',
  `select s.id, s.idx as "index", s.input
     from ((select k.id, k.idx, k.input from sluice.jobs k
             where k.parent_id = $1 and k.superseded_at is null and k.idx < $2 and k.state = 'completed' order by k.idx desc limit 1)
           union all
           (select k.id, k.idx, k.input from sluice.jobs k
             where k.parent_id = $1 and k.superseded_at is null and k.idx > $2 and k.state = 'completed' order by k.idx limit 1)) s
    order by abs(s.idx - $2), s.idx limit 1`,
)

/** The nearest child of a fan-out that completed. */
export async function findGoodSibling(
  db: Queryable,
  parent: string,
  index: number,
): Promise<GoodSibling | undefined> {
  return (await db.run<GoodSibling & Record<string, unknown>>(FIND, [parent, index]))[0]
}
