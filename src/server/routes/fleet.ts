import { Type } from 'typebox'
import { FleetBody, FleetQuery, PoolBody, PoolChangeBody, PoolParams } from '../../api/fleet.ts'
import { changePool, deletePool, resetPool } from '../../engine/operate/operator-acts.ts'
import type { PoolNumbers } from '../../engine/operate/pool-control.ts'
import { viewFleet } from '../../engine/views/fleet-view.ts'
import { toFleetBody, toPoolBody } from '../bodies/fleet-body.ts'
import { changeAsOperator } from '../change.ts'
import type { Server, ServerParts } from '../parts.ts'

/** `/admin/fleet`: pools of workers, overflow and past decisions, and an operator's changes to a pool. */
export function fleetRoutes(server: Server, parts: ServerParts): void {
  const { calls } = parts.services
  const tags = ['fleet']
  const view = async (name: string) =>
    toPoolBody((await viewFleet(calls, { pool: name, limit: 1 })).pools[0]!)

  server.get(
    '/admin/fleet',
    {
      config: { access: 'workers:view' },
      schema: {
        summary: 'Pools and their overflow; past decisions to request workers, with their outcomes',
        tags,
        querystring: FleetQuery,
        response: { 200: FleetBody },
      },
    },
    async (request) => toFleetBody(await viewFleet(calls, request.query)),
  )

  server.patch(
    '/admin/fleet/:name',
    {
      config: { access: 'workers:manage' },
      schema: {
        summary: 'Change a pool',
        description:
          'The change persists until it is reset, whatever files declare. It does not start or stop workers immediately. How workers are started is set in the config only.',
        tags,
        params: PoolParams,
        body: PoolChangeBody,
        response: { 200: PoolBody },
      },
    },
    async (request) => {
      const { name } = request.params
      await changeAsOperator(parts, request, changePool(name, request.body as PoolNumbers))
      return view(name)
    },
  )

  server.post(
    '/admin/fleet/:name/reset',
    {
      config: { access: 'workers:manage' },
      schema: {
        summary: 'Reset a pool to the values that files and code declare',
        tags,
        params: PoolParams,
        response: { 200: PoolBody },
      },
    },
    async (request) => {
      const { name } = request.params
      await changeAsOperator(parts, request, resetPool(name))
      return view(name)
    },
  )

  server.delete(
    '/admin/fleet/:name',
    {
      config: { access: 'workers:manage' },
      schema: {
        summary: 'Delete a pool that is no longer in the file',
        description:
          'Rejected while the pool has live workers or waits for workers. A pool that a file still declares exists again when the file is next applied.',
        tags,
        params: PoolParams,
        response: { 204: Type.Null() },
      },
    },
    async (request, reply) => {
      await changeAsOperator(parts, request, deletePool(request.params.name))
      return reply.code(204).send(null)
    },
  )
}
