import { type Static, Type } from 'typebox'
import { PERMISSION_NAMES } from '../model/permissions.ts'
import { Name, Timestamp } from './scalars.ts'

const Permission = Type.Enum([...PERMISSION_NAMES])

export const RoleBody = Type.Object({
  name: Name,
  // Not a list of known permissions, because a newer server may have stored another.
  permissions: Type.Array(Type.String()),
  builtIn: Type.Boolean({ description: 'It can be neither changed nor deleted' }),
  keys: Type.Integer({ description: 'Valid keys that have it' }),
  updatedAt: Timestamp,
  updatedBy: Type.String(),
})
export type RoleBody = Static<typeof RoleBody>

export const RoleList = Type.Object({ roles: Type.Array(RoleBody) })
export type RoleList = Static<typeof RoleList>

export const RoleParams = Type.Object(
  { name: { ...Name, examples: ['viewer'] } },
  { additionalProperties: false },
)

const Permissions = Type.Array(Permission, { minItems: 1, maxItems: 100, examples: [['jobs:read:all']] })

export const NewRoleBody = Type.Object(
  { name: Name, permissions: Permissions },
  { additionalProperties: false },
)

export const RoleChangeBody = Type.Object({ permissions: Permissions }, { additionalProperties: false })
