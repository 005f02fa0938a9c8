import type { FastifyRequest } from 'fastify'
import type { Author } from '../engine/access/author.ts'

/** Who changes something with this request. */
export function authorOf({ caller, id, reason }: FastifyRequest): Author {
  return { name: caller.name, keyId: caller.keyId, permissions: caller.permissions, requestId: id, reason }
}
