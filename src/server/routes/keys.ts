import {
  type CreatedKeyBody,
  KeyBody,
  KeyChangeBody,
  KeyList,
  KeyListQuery,
  KeyParams,
  CreatedKeyBody as NewKeyAnswer,
  NewKeyBody,
  RevokedKeyBody,
  RevokeQuery,
} from '../../api/keys.ts'
import type { Queryable } from '../../db/database.ts'
import { changeKey, createKey, getKey, listKeys, revokeKey } from '../../engine/access/keys.ts'
import { parseDuration } from '../../model/duration.ts'
import type { KeyView } from '../../store/list-keys.ts'
import { orNull } from '../bodies/job-bodies.ts'
import { authorOf } from '../callers/author.ts'
import { carryOut } from '../change.ts'
import type { Server, ServerParts } from '../parts.ts'

/** `/keys`: the API keys. */
export function keyRoutes(server: Server, parts: ServerParts): void {
  const { calls } = parts.services
  const config = { access: 'access:manage' } as const

  server.get(
    '/keys',
    {
      config,
      schema: {
        summary: 'All keys, including revoked and expired ones',
        tags: ['access'],
        querystring: KeyListQuery,
        response: { 200: KeyList },
      },
    },
    async (request) => {
      const { after = '0', limit = 100 } = request.query
      const keys = await listKeys(calls, after, limit)
      return { keys: keys.map(toBody), next: keys.length < limit ? null : keys.at(-1)!.id }
    },
  )

  server.get(
    '/keys/:id',
    {
      config,
      schema: { summary: 'One key', tags: ['access'], params: KeyParams, response: { 200: KeyBody } },
    },
    async (request) => toBody(await getKey(calls, request.params.id)),
  )

  server.post(
    '/keys',
    {
      config,
      schema: {
        summary: 'Create a key; only this response contains the key itself',
        description:
          'Its role may not have a permission that your own key lacks. A name that is in use requires `jobs:read:all`, or `takeover`.',
        tags: ['access'],
        body: NewKeyBody,
        response: { 201: NewKeyAnswer },
      },
    },
    async (request, reply) => {
      const { name, role, expires = null, runs, takeover } = request.body
      const livesMs = expires === null ? null : Math.round(parseDuration(expires, 'expires'))
      const what = { action: 'key.create', target: `role ${role}` }
      const created = await carryOut(parts, request, what, (tx) =>
        createKey(tx, { name, role, livesMs, runs, takeover }, authorOf(request)),
      )
      const body: CreatedKeyBody = { ...toBody(created), key: created.key }
      return reply.code(201).header('location', `/api/v1/keys/${created.id}`).send(body)
    },
  )

  server.patch(
    '/keys/:id',
    {
      config,
      schema: {
        summary: 'Change what the workers of a key may run, immediately and on every server',
        description:
          'Omitted fields keep their values. A worker that runs more than the key allows is rejected from then on.',
        tags: ['access'],
        params: KeyParams,
        body: KeyChangeBody,
        response: { 200: KeyBody },
      },
    },
    async (request) => {
      const { id } = request.params
      const what = { action: 'key.change', target: `key ${id}` }
      const work = (tx: Queryable) => changeKey(tx, id, request.body.runs, authorOf(request))
      return toBody(await carryOut(parts, request, what, work))
    },
  )

  server.delete(
    '/keys/:id',
    {
      config,
      schema: {
        summary: 'Revoke a key, immediately and on every server',
        tags: ['access'],
        params: KeyParams,
        querystring: RevokeQuery,
        response: { 200: RevokedKeyBody },
      },
    },
    async (request) => {
      const { id } = request.params
      const { withSchedules = false } = request.query
      const what = { action: 'key.revoke', target: `key ${id}` }
      const revoked = await carryOut(parts, request, what, (tx) =>
        revokeKey(tx, id, authorOf(request), { withSchedules }),
      )
      return { ...toBody(revoked), pausedSchedules: [...revoked.pausedSchedules] }
    },
  )
}

function toBody(key: KeyView): KeyBody {
  const { id, name, role, runs, state, createdAt, createdBy, expiresAt, lastUsedAt, revokedAt, revokedBy } =
    key
  return {
    id,
    name,
    role,
    runs:
      runs === null
        ? null
        : { ...runs, tasks: [...runs.tasks], lanes: [...runs.lanes], pools: [...runs.pools] },
    state,
    createdAt: createdAt.toISOString(),
    createdBy,
    expiresAt: orNull(expiresAt),
    lastUsedAt: orNull(lastUsedAt),
    revokedAt: orNull(revokedAt),
    revokedBy,
  }
}
