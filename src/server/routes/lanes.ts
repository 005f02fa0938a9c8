import { Type } from 'typebox'
import {
  LaneBody,
  LaneChangeBody,
  LaneChangesBody,
  LaneChangesQuery,
  LaneCreateBody,
  LaneDeleteQuery,
  LaneList,
  LaneParams,
  TaskLaneBody,
  TaskParams,
  TaskPlaceBody,
} from '../../api/lanes.ts'
import { getLane, readLaneChanges } from '../../engine/operate/lane-control.ts'
import {
  changeLane,
  createLane,
  deleteLane,
  deleteTask,
  moveTask,
  resetLane,
} from '../../engine/operate/operator-acts.ts'
import { toLaneBody, toOverridesBody } from '../bodies/lane-body.ts'
import { changeAsOperator } from '../change.ts'
import type { Server, ServerParts } from '../parts.ts'

/** `/admin/workers/lanes`: the lanes with their use, and an operator's changes to them. */
export function laneRoutes(server: Server, parts: ServerParts): void {
  const { calls } = parts.services

  server.get(
    '/admin/workers/lanes',
    {
      config: { access: 'workers:view' },
      schema: { summary: 'All lanes', tags: ['lanes'], response: { 200: LaneList } },
    },
    async () => ({
      lanes: (await parts.app.listLanes()).map(toLaneBody),
      overrides: toOverridesBody(await parts.app.laneOverrides()),
    }),
  )

  server.get(
    '/admin/workers/lanes/:name',
    {
      config: { access: 'workers:view' },
      schema: { summary: 'One lane', tags: ['lanes'], params: LaneParams, response: { 200: LaneBody } },
    },
    async (request) => toLaneBody(await getLane(calls, request.params.name)),
  )

  server.get(
    '/admin/workers/lanes/:name/changes',
    {
      config: { access: 'workers:view' },
      schema: {
        summary: 'Changes that operators made to a lane, with their reasons',
        tags: ['lanes'],
        params: LaneParams,
        querystring: LaneChangesQuery,
        response: { 200: LaneChangesBody },
      },
    },
    async ({ params, query }) => {
      const changes = await readLaneChanges(calls, params.name, query)
      return { changes: changes.map((each) => ({ ...each, at: each.at.toISOString() })) }
    },
  )

  server.post(
    '/admin/workers/lanes',
    {
      config: { access: 'workers:manage' },
      schema: {
        summary: 'Create a lane',
        description: 'The lane does not have to be declared in a file. A deleted lane is restored.',
        tags: ['lanes'],
        body: LaneCreateBody,
        response: { 201: LaneBody },
      },
    },
    async (request, reply) => {
      const { name, ...given } = request.body
      reply.code(201)
      return toLaneBody(await changeAsOperator(parts, request, createLane(name, given)))
    },
  )

  server.delete(
    '/admin/workers/lanes/:name',
    {
      config: { access: 'workers:manage' },
      schema: {
        summary: 'Delete a lane; if it is in use, name the lane that takes its tasks and jobs',
        description:
          'Jobs that have not started move within seconds; running jobs finish in the lane. It stays deleted until it is reset, whatever files declare.',
        tags: ['lanes'],
        params: LaneParams,
        querystring: LaneDeleteQuery,
        response: { 204: Type.Null() },
      },
    },
    async (request, reply) => {
      const { params, query } = request
      await changeAsOperator(parts, request, deleteLane(params.name, query.moveTo))
      return reply.code(204).send(null)
    },
  )

  server.put(
    '/admin/workers/tasks/:name/lane',
    {
      config: { access: 'workers:manage' },
      schema: {
        summary: 'Move a task to another lane; null moves it back to the one that files and code declare',
        description:
          'Jobs that have not started move within seconds, unless their submission named a lane; running jobs finish in the old lane. The change persists until it is reset, whatever files and code declare.',
        tags: ['lanes'],
        params: TaskParams,
        body: TaskLaneBody,
        response: { 200: TaskPlaceBody },
      },
    },
    async (request) => {
      const { params, body } = request
      return changeAsOperator(parts, request, moveTask(params.name, body.lane))
    },
  )

  server.delete(
    '/admin/workers/tasks/:name',
    {
      config: { access: 'workers:manage' },
      schema: {
        summary: 'Delete a task or workflow until a program registers it again',
        description:
          'Its jobs still run. Afterwards the name of a task can become that of a workflow, and vice versa. Returns 409 for a task that needs approval.',
        tags: ['lanes'],
        params: TaskParams,
        response: { 204: Type.Null() },
      },
    },
    async (request, reply) => {
      await changeAsOperator(parts, request, deleteTask(request.params.name))
      return reply.code(204).send(null)
    },
  )

  server.patch(
    '/admin/workers/lanes/:name',
    {
      config: { access: 'workers:manage' },
      schema: {
        summary: 'Change a lane; enabled: false pauses it',
        description:
          'The change persists until it is reset, whatever files declare. Each worker applies it with its next cycle.',
        tags: ['lanes'],
        params: LaneParams,
        body: LaneChangeBody,
        response: { 200: LaneBody },
      },
    },
    async (request) => {
      const { name } = request.params
      return toLaneBody(await changeAsOperator(parts, request, changeLane(name, request.body)))
    },
  )

  server.post(
    '/admin/workers/lanes/:name/reset',
    {
      config: { access: 'workers:manage' },
      schema: {
        summary: 'Reset a lane to the values that files and code declare',
        tags: ['lanes'],
        params: LaneParams,
        response: { 200: LaneBody },
      },
    },
    async (request) => {
      const { name } = request.params
      return toLaneBody(await changeAsOperator(parts, request, resetLane(name)))
    },
  )
}
