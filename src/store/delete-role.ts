import { type Queryable, statement } from '../db/database.ts'

const DELETE = statement(
  'delete_role',
  `delete from sluice.roles r where r.name = $1 and not r.built_in
      and not exists (select 1 from sluice.api_keys k where k.role = r.name) returning r.name`,
)

/** False when some key has it, be it one that was revoked: history says what keys were allowed. */
export async function deleteRole(tx: Queryable, name: string): Promise<boolean> {
  return (await tx.run(DELETE, [name])).length > 0
}
