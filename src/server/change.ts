import type { FastifyRequest } from 'fastify'
import type { Queryable } from '../db/database.ts'
import { isRetryable, translateError } from '../db/sqlstate.ts'
import { audit } from '../engine/audit.ts'
import { SluiceError } from '../errors.ts'
import { recordRefusal } from './access.ts'
import type { ServerParts } from './parts.ts'

/** What a change leaves behind: the answer, and what the audit says. */
export interface Changed<T> {
  readonly result: T
  /** States, limits, names. Never inputs, results or secrets. */
  readonly before?: unknown
  readonly after?: unknown
}

const TRIES = 3

/**
 * Carries out a change and writes it down, both or neither.
 *
 * What the database guarantees not to have carried out is tried again. A refusal (403 or 409) is written down by itself,
 * since its transaction is undone.
 *
 * @param what Dotted words for the action, and what it is about: `lane.change`, `lane interactive`.
 */
export async function change<T>(
  parts: ServerParts,
  request: FastifyRequest,
  what: { readonly action: string; readonly target: string },
  work: (tx: Queryable) => Promise<Changed<T>>,
): Promise<T> {
  const { caller, id: requestId } = request
  for (let tries = 1; ; tries++) {
    try {
      return await parts.room.db.transaction(async (tx) => {
        const { result, before, after } = await work(tx)
        await audit(tx, { actor: caller.name, keyId: caller.keyId, ...what, before, after, requestId })
        return result
      })
    } catch (error) {
      if (tries < TRIES && isRetryable(error)) continue
      const known = translateError(error)
      if (known instanceof SluiceError && (known.status === 403 || known.status === 409))
        await recordRefusal(parts, request, what.action, known.code, what.target)
      throw known
    }
  }
}
