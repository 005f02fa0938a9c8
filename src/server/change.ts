import type { FastifyRequest } from 'fastify'
import type { Queryable } from '../db/database.ts'
import { transactWithRetries } from '../db/with-retries.ts'
import { audit } from '../engine/access/audit.ts'
import { carryOutAct, type OperatorAct } from '../engine/operate/operator-acts.ts'
import { once } from './http/idempotency.ts'
import { recordingRefusals } from './limits/refusals.ts'
import type { ServerParts } from './parts.ts'

/** What a change leaves behind: the answer, and what the audit says. */
export interface Changed<T> {
  readonly result: T
  /** States, limits, names. Never inputs, results or secrets. */
  readonly before?: unknown
  readonly after?: unknown
}

interface What {
  /** Dotted words: `lane.change`. */
  readonly action: string
  /** What it is about: `lane interactive`. */
  readonly target: string
  /** An Idempotency-Key is honoured: the result is kept for 24 h, so it must be JSON and no secret. */
  readonly once?: boolean
}

/**
 * Carries out a change and writes it down, both or neither.
 *
 * What the database guarantees not to have carried out is tried again. A refusal (403 or 409) is written down by itself,
 * since its transaction is undone.
 */
export async function change<T>(
  parts: ServerParts,
  request: FastifyRequest,
  what: What,
  work: (tx: Queryable) => Promise<Changed<T>>,
): Promise<T> {
  const { caller, id: requestId, reason } = request
  const author = { actor: caller.name, keyId: caller.keyId, requestId, reason }
  return carryOut(parts, request, what, async (tx) => {
    const { result, before, after } = await work(tx)
    const { action, target } = what
    await audit(tx, { ...author, action, target, before, after })
    return result
  })
}

/** The same for what operators also do by program or command line. */
export async function changeAsOperator<T>(
  parts: ServerParts,
  request: FastifyRequest,
  act: OperatorAct<T>,
): Promise<T> {
  const { action, target } = act
  return change(parts, request, { action, target }, (tx) => carryOutAct(tx, act, request.caller.name))
}

/** The same for work that writes its own line into the audit. */
export async function carryOut<T>(
  parts: ServerParts,
  request: FastifyRequest,
  what: What,
  work: (tx: Queryable) => Promise<T>,
): Promise<T> {
  const { db } = parts.services
  return recordingRefusals(parts, request, what, () =>
    what.once === true ? once(db, request, work) : transactWithRetries(db, work),
  )
}
