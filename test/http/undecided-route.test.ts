import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import { fastify } from 'fastify'
import { expect, test } from 'vitest'
import { registerAccess } from '../../src/server/callers/access.ts'
import type { Access, Server, ServerParts } from '../../src/server/parts.ts'

/** A server with one route. Nobody gets as far as the database. */
function serverWith(access: Access | undefined): Server {
  const server: Server = fastify().withTypeProvider<TypeBoxTypeProvider>()
  registerAccess(server, {} as ServerParts)
  server.get('/route', { config: access === undefined ? {} : { access } }, async () => 'answered')
  return server
}

test.each<[string, Access | undefined]>([
  ['says nothing about who may call it', undefined],
  ['names a permission that does not exist', 'jobs:everything' as Access],
  ['names no permission at all', []],
])('a server does not start with a route that %s', async (_, access) => {
  const server = serverWith(access)
  await expect(server.ready()).rejects.toThrow(
    'route GET /route does not declare in config.access who may call it',
  )
})

test('a route that says it is public is', async () => {
  const answer = await serverWith('public').inject('/route')
  expect([answer.statusCode, answer.body]).toEqual([200, 'answered'])
})
