import { createHash } from 'node:crypto'
import type { FastifyRequest } from 'fastify'
import type { Database, Queryable } from '../../db/database.ts'
import { transactWithRetries } from '../../db/with-retries.ts'
import { answerOnce } from '../../engine/submit/idempotency.ts'
import type { Server } from '../parts.ts'

const replayed = new WeakSet<FastifyRequest>()

/** Says of an answer that it is a repeated one. */
export function registerReplayed(server: Server): void {
  server.addHook('onSend', async (request, reply) => {
    if (replayed.has(request)) reply.header('idempotency-replayed', 'true')
  })
}

/** The key a caller gave, if it gave one. */
export function idempotencyKey(request: FastifyRequest): string | undefined {
  const key = request.headers['idempotency-key']
  return typeof key === 'string' ? key : undefined
}

/**
 * A transaction for a request. With an `Idempotency-Key` it is done once: what `work` gave the first time is given again
 * to a repeat, within 24 hours. The handler makes the same answer of it.
 *
 * @param work What it gives is kept as JSON: no secrets, no dates.
 * @throws {SluiceError} `IDEMPOTENCY_CONFLICT`.
 */
export async function once<T>(
  db: Database,
  request: FastifyRequest,
  work: (tx: Queryable) => Promise<T>,
): Promise<T> {
  const key = idempotencyKey(request)
  if (key === undefined) return transactWithRetries(db, work)
  const { answer, replayed: isRepeat } = await answerOnce(
    db,
    { owner: request.caller.name, key, hash: hashOf(request) },
    work,
  )
  if (isRepeat) replayed.add(request)
  return answer
}

function hashOf({ method, url, body }: FastifyRequest): Buffer {
  return createHash('sha256')
    .update(`${method} ${url}\n${JSON.stringify(body ?? null)}`)
    .digest()
}
