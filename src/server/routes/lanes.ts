import {
  LaneBody,
  LaneChangeBody,
  LaneChangesBody,
  LaneChangesQuery,
  LaneList,
  LaneParams,
} from '../../api/lanes.ts'
import { getLane, readLaneChanges } from '../../engine/lane-control.ts'
import { changeLane, resetLane } from '../../engine/operator-acts.ts'
import { changeAsOperator } from '../change.ts'
import { toLaneBody } from '../lane-body.ts'
import type { Server, ServerParts } from '../parts.ts'

/** `/admin/workers/lanes`: what the lanes are and what they hold; an operator's change to one. */
export function laneRoutes(server: Server, parts: ServerParts): void {
  const { calls } = parts.room

  server.get(
    '/admin/workers/lanes',
    {
      config: { access: 'workers:view' },
      schema: { summary: 'All lanes', tags: ['lanes'], response: { 200: LaneList } },
    },
    async () => ({ lanes: (await parts.app.listLanes()).map(toLaneBody) }),
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
        summary: 'What operators changed of a lane, and why',
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

  server.patch(
    '/admin/workers/lanes/:name',
    {
      config: { access: 'workers:manage' },
      schema: {
        summary: 'Change a lane; enabled: false drains it',
        description:
          "Stays until it is reset, whatever files say. Takes effect with every worker's next cycle.",
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
        summary: 'Forget what operators changed: the lane is again as files and programs last said',
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
