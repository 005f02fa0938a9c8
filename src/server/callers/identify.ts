import { hash } from 'node:crypto'
import type { FastifyRequest } from 'fastify'
import { audit } from '../../engine/access/audit.ts'
import { authenticate } from '../../engine/access/authenticate.ts'
import type { Caller } from '../../engine/access/caller.ts'
import { hashOf, type SecretKind } from '../../engine/access/secret.ts'
import { authenticateSession, type Session } from '../../engine/access/sessions.ts'
import { SluiceError } from '../../errors.ts'
import type { ServerParts } from '../parts.ts'
import { AttemptLimit, sourceOf } from './attempt-limit.ts'
import { checkOwnPage, readSessionCookie } from './session-cookie.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** The browser's session, where the request came with its cookie. */
    session: Session | undefined
  }
}

/** Nobody guesses 256 bits: this keeps those who try from filling the audit. */
const FAILURES_PER_ADDRESS = 20
const PERIOD_MS = 60_000
/** Addresses, and keys that were not good, that are remembered. */
const REMEMBERED = 10_000
/**
 * How long a bad key is refused without asking the database. Long enough that a program that goes on with a revoked key costs
 * nothing; short, since the restore of a backup makes keys good again.
 */
const BAD_MS = 3000
/** As long as a refusal at the ceiling is remembered. */
const LATELY_MS = 100

/** What the audit says of one. */
const WRONG_KEY = { actor: 'unknown', action: 'access.authenticate', refused: 'UNAUTHENTICATED' } as const

/**
 * Says who sent a request: by the key in its `Authorization`, else by the session in its cookie.
 *
 * A key is never looked for anywhere else. A request with both is judged by its key alone, so that a wrong key is not
 * covered up by a cookie.
 */
export class Identification {
  readonly #parts: ServerParts
  readonly #failures = new AttemptLimit({
    most: FAILURES_PER_ADDRESS,
    periodMs: PERIOD_MS,
    sources: REMEMBERED,
  })
  /** What was not good, with when that was found out, and when it was last counted. */
  readonly #bad = new Map<string, { readonly foundAt: number; readonly countedAt: number }>()

  /** Whose keys were good a moment ago, with until when that counts for a refusal. */
  readonly #lately = new Map<string, { readonly caller: Caller; readonly until: number }>()

  constructor(parts: ServerParts) {
    this.#parts = parts
  }

  /** @throws {SluiceError} `UNAUTHENTICATED`, `TOO_MANY_FAILURES`; `FORBIDDEN` for a cookie that no page of ours sent. */
  async identify(request: FastifyRequest): Promise<Caller> {
    const { authorization } = request.headers
    if (authorization !== undefined) {
      const token = /^Bearer +([\x21-\x7e]{1,200})$/i.exec(authorization)?.[1] ?? ''
      const askedAt = performance.now()
      const caller = await this.check(request, 'key', token, () =>
        authenticate(this.#parts.connections.keys, token),
      )
      if (this.#parts.services.gate.shut) this.#remember(authorization, caller, askedAt)
      return caller
    }
    const token = readSessionCookie(request)
    if (token === undefined) {
      throw new SluiceError(
        'UNAUTHENTICATED',
        'the request has no API key: send "Authorization: Bearer KEY", or sign in',
      )
    }
    checkOwnPage(request, token)
    const find = () => authenticateSession(this.#parts.connections.keys, token)
    request.session = await this.check(request, 'session', token, find)
    return request.session.caller
  }

  /**
   * Finds out whether a credential is good, and keeps count of those that are not, each once a minute: a program that
   * goes on with a revoked key guesses nothing, and is looked up every few seconds only.
   *
   * Every other one is looked up, also where its address has failed too often: programs behind one proxy share an address,
   * and whoever has a good key does not wait for one that guesses. Only what is not good is then answered with
   * `TOO_MANY_FAILURES`, and is only counted in the audit.
   */
  async check<T>(
    request: FastifyRequest,
    as: SecretKind,
    credential: string,
    find: () => Promise<T | undefined>,
  ): Promise<T> {
    // Of a connection that has gone meanwhile there is no address any more.
    const address = sourceOf(request.ip ?? '')
    // With what it was given as: a good key in the place of something else is still a good key in its own.
    const known = hashOf(`${as} ${credential}`).toString('base64')
    if (this.#isBad(known)) throw unauthenticated()
    const found = await find()
    if (found !== undefined) return found
    // Of those that asked at the same time, one is counted.
    if (this.#noteBad(known)) {
      const waitMs = this.#failures.waitOf(address)
      if (waitMs > 0) {
        this.#parts.wrongKeys.leaveOut(`address ${address}`, WRONG_KEY)
        throw tooManyFailures(waitMs)
      }
      this.#failures.count(address)
      await this.#record(request, address)
    }
    throw unauthenticated()
  }

  /**
   * Whose key is in this header, if that was asked within the last 100 ms, while submissions were being refused.
   *
   * For refusing only: the key may have been revoked since. Nothing may be given or done because of it.
   */
  lately(authorization: string): Caller | undefined {
    const known = this.#lately.get(fingerprint(authorization))
    return known !== undefined && known.until > performance.now() ? known.caller : undefined
  }

  #remember(authorization: string, caller: Caller, askedAt: number): void {
    const known = fingerprint(authorization)
    // Set anew, it is the youngest.
    this.#lately.delete(known)
    bounded(this.#lately.set(known, { caller, until: askedAt + LATELY_MS }))
  }

  #isBad(known: string): boolean {
    const bad = this.#bad.get(known)
    return bad !== undefined && performance.now() < bad.foundAt + BAD_MS
  }

  /** Remembers a bad credential. True when it is to be counted: once a minute. */
  #noteBad(known: string): boolean {
    const now = performance.now()
    const { countedAt = Number.NEGATIVE_INFINITY } = this.#bad.get(known) ?? {}
    const counts = now >= countedAt + PERIOD_MS
    // Set anew, it is the youngest.
    this.#bad.delete(known)
    bounded(this.#bad.set(known, { foundAt: now, countedAt: counts ? now : countedAt }))
    return counts
  }

  async #record(request: FastifyRequest, address: string): Promise<void> {
    if (!this.#parts.wrongKeys.admit(`address ${address}`, WRONG_KEY)) return
    await audit(this.#parts.services.calls, {
      ...WRONG_KEY,
      target: `address ${address}`,
      requestId: request.id,
    }).catch((error) =>
      request.log.warn({ err: error }, 'could not record a failed sign-in in the audit log'),
    )
  }
}

/** Secrets are not kept in memory, not even for a moment. */
function fingerprint(authorization: string): string {
  return hash('sha256', authorization, 'base64')
}

/** Forgets the eldest: a map keeps the order in which things were put in. */
function bounded(memory: Map<string, unknown>): void {
  if (memory.size > REMEMBERED) memory.delete(memory.keys().next().value!)
}

function unauthenticated(): SluiceError {
  return new SluiceError(
    'UNAUTHENTICATED',
    'the key or session is unknown, expired or revoked: use a valid one',
  )
}

function tooManyFailures(waitMs: number): SluiceError {
  const retryAfter = Math.ceil(waitMs / 1000)
  return new SluiceError(
    'TOO_MANY_FAILURES',
    `too many wrong keys came from your address, and this one is not valid either: send a valid key, or wait ${retryAfter} s`,
    { details: { retryAfter } },
  )
}
