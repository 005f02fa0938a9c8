import { type Queryable, statement } from '../db/database.ts'

export interface RoleView {
  readonly name: string
  readonly permissions: readonly string[]
  /** Neither changed nor deleted. */
  readonly builtIn: boolean
  /** Live keys that have it. */
  readonly keys: number
  readonly updatedAt: Date
  readonly updatedBy: string
}

const LIST = statement(
  'list_roles',
  `select r.name, r.permissions, r.built_in as "builtIn", r.updated_at as "updatedAt", r.updated_by as "updatedBy",
          (select count(*)::integer from sluice.api_keys k
            where k.role = r.name and k.revoked_at is null and (k.expires_at is null or k.expires_at > statement_timestamp())) as keys
     from sluice.roles r where $1::text is null or r.name = $1 order by not r.built_in, r.created_at, r.name`,
)

/** The built-in roles, then the others in the order they were made. */
export async function listRoles(db: Queryable): Promise<RoleView[]> {
  return db.run<RoleView & Record<string, unknown>>(LIST, [null])
}

export async function findRole(db: Queryable, name: string): Promise<RoleView | undefined> {
  return (await db.run<RoleView & Record<string, unknown>>(LIST, [name]))[0]
}
