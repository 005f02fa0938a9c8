import { Type } from 'typebox'
import { NewRoleBody, RoleBody, RoleChangeBody, RoleList, RoleParams } from '../../api/roles.ts'
import { changeRole, createRole, deleteRole, getRole, listRoles } from '../../engine/access/roles.ts'
import type { RoleView } from '../../store/list-roles.ts'
import { authorOf } from '../callers/author.ts'
import { carryOut } from '../change.ts'
import type { Server, ServerParts } from '../parts.ts'

/** `/roles`: the roles, which define what keys may do. */
export function roleRoutes(server: Server, parts: ServerParts): void {
  const { calls } = parts.services
  const config = { access: 'access:manage' } as const

  server.get(
    '/roles',
    { config, schema: { summary: 'All roles', tags: ['access'], response: { 200: RoleList } } },
    async () => ({ roles: (await listRoles(calls)).map(toBody) }),
  )

  server.get(
    '/roles/:name',
    {
      config,
      schema: { summary: 'One role', tags: ['access'], params: RoleParams, response: { 200: RoleBody } },
    },
    async (request) => toBody(await getRole(calls, request.params.name)),
  )

  server.post(
    '/roles',
    {
      config,
      schema: {
        summary: 'Create a role; it may only have permissions that your own key has',
        tags: ['access'],
        body: NewRoleBody,
        response: { 201: RoleBody },
      },
    },
    async (request, reply) => {
      const what = { action: 'role.create', target: `role ${request.body.name}` }
      const role = await carryOut(parts, request, what, (tx) =>
        createRole(tx, request.body, authorOf(request)),
      )
      return reply.code(201).header('location', `/api/v1/roles/${role.name}`).send(toBody(role))
    },
  )

  server.patch(
    '/roles/:name',
    {
      config,
      schema: {
        summary: 'Change the permissions of a role, for all keys that have it',
        tags: ['access'],
        params: RoleParams,
        body: RoleChangeBody,
        response: { 200: RoleBody },
      },
    },
    async (request) => {
      const { name } = request.params
      const { permissions } = request.body
      const what = { action: 'role.change', target: `role ${name}` }
      return toBody(
        await carryOut(parts, request, what, (tx) => changeRole(tx, name, permissions, authorOf(request))),
      )
    },
  )

  server.delete(
    '/roles/:name',
    {
      config,
      schema: {
        summary: 'Delete a role that no key has ever had',
        tags: ['access'],
        params: RoleParams,
        response: { 204: Type.Null() },
      },
    },
    async (request, reply) => {
      const { name } = request.params
      const what = { action: 'role.delete', target: `role ${name}` }
      await carryOut(parts, request, what, (tx) => deleteRole(tx, name, authorOf(request)))
      return reply.code(204).send(null)
    },
  )
}

function toBody({ name, permissions, builtIn, keys, updatedAt, updatedBy }: RoleView): RoleBody {
  return {
    name,
    permissions: [...permissions],
    builtIn,
    keys,
    updatedAt: updatedAt.toISOString(),
    updatedBy,
  }
}
