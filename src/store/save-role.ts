import { type Queryable, statement } from '../db/database.ts'

const INSERT = statement(
  'insert_role',
  `insert into sluice.roles (name, permissions, created_by, updated_by) values ($1, $2, $3, $3)
   on conflict (name) do nothing returning name`,
)
const CHANGE = statement(
  'change_role',
  `update sluice.roles set permissions = $2, updated_at = statement_timestamp(), updated_by = $3
    where name = $1 and not built_in`,
)

/** False when there is a role of that name. */
export async function insertRole(
  tx: Queryable,
  name: string,
  permissions: readonly string[],
  by: string,
): Promise<boolean> {
  return (await tx.run(INSERT, [name, permissions, by])).length > 0
}

export async function changeRole(
  tx: Queryable,
  name: string,
  permissions: readonly string[],
  by: string,
): Promise<void> {
  await tx.run(CHANGE, [name, permissions, by])
}
