import type { FastifyRequest } from 'fastify'
import type { Author } from '../../engine/access/author.ts'

/** Who changes something with this request. */
export function authorOf({ caller, id, reason }: FastifyRequest): Author {
  const { name, keyId, permissions, runs } = caller
  return { name, keyId, permissions, runs, requestId: id, reason }
}
