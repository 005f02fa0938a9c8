import { createHmac } from 'node:crypto'
import type { Queryable } from '../../db/database.ts'
import { endSession } from '../../store/end-session.ts'
import { findAdmin } from '../../store/find-admin.ts'
import { findSessions } from '../../store/find-sessions.ts'
import { insertSignIn } from '../../store/insert-sign-in.ts'
import * as opening from '../../store/open-session.ts'
import { audit } from './audit.ts'
import { type Author, entryOf } from './author.ts'
import { type Caller, toCaller } from './caller.ts'
import { hashOf, looksLike, lookupOf, newSecret, sameHash } from './secret.ts'

/** A browser that has signed in. It has the permissions of its key. */
export interface Session {
  readonly id: string
  readonly caller: Caller
  readonly expiresAt: Date
}

export interface NewSession extends Session {
  /** For the cookie. */
  readonly token: string
}

/** A working day. */
const SESSION_MS = 12 * 3_600_000
/** The time from printing an address to opening it. */
const SIGN_IN_MS = 15 * 60_000

/**
 * Opens a session for an authenticated key, or with a token for one session.
 *
 * Returns nothing if the key is no longer valid, or if the token is malformed, unknown, used or expired.
 */
export async function openSession(
  tx: Queryable,
  by: { readonly keyId: string } | { readonly signIn: string },
  requestId: string,
): Promise<NewSession | undefined> {
  const token = newSecret('session')
  const hash = hashOf(token)
  if ('signIn' in by && !looksLike('sign-in', by.signIn)) return undefined
  const opened =
    'keyId' in by
      ? await opening.openSession(tx, by.keyId, hash, SESSION_MS)
      : await opening.openSessionOnce(tx, hashOf(by.signIn), hash, SESSION_MS)
  if (!opened) return undefined
  const session = await authenticateSession(tx, token)
  if (session === undefined) return undefined
  const { name, keyId, permissions } = session.caller
  await audit(tx, entryOf({ name, keyId, permissions, requestId }, 'session.open', `session ${session.id}`))
  return { ...session, token }
}

/**
 * Returns the caller of a session. Queries the database each time, so that revoking a key ends its sessions at once.
 */
export async function authenticateSession(db: Queryable, token: string): Promise<Session | undefined> {
  if (!looksLike('session', token)) return undefined
  const hash = hashOf(token)
  const found = (await findSessions(db, lookupOf(hash))).find((each) => sameHash(each.hash, hash))
  if (found === undefined) return undefined
  return { id: found.sessionId, caller: toCaller(found), expiresAt: found.expiresAt }
}

/** Signs out. */
export async function closeSession(tx: Queryable, id: string, author: Author): Promise<void> {
  await endSession(tx, id)
  await audit(tx, entryOf(author, 'session.close', `session ${id}`))
}

/**
 * The text that a page must send with every change. It is derived from the cookie's token, which pages cannot read. So
 * it need not be stored, is the same in every tab, and does not reveal the token.
 */
export function csrfTokenOf(sessionToken: string): string {
  return createHmac('sha256', sessionToken).update('sluice csrf').digest('base64url')
}

/** Compares in constant time. */
export function isCsrfToken(given: string, sessionToken: string): boolean {
  return sameHash(hashOf(given), hashOf(csrfTokenOf(sessionToken)))
}

/**
 * Creates a token that opens one session for an administrator, within 15 minutes, for an address that only the owner
 * of a program reads. Returns nothing if no key that can manage access is left.
 */
export async function offerSignIn(tx: Queryable, author: Author): Promise<string | undefined> {
  const keyId = await findAdmin(tx, 'access:manage')
  if (keyId === undefined) return undefined
  const token = newSecret('sign-in')
  await insertSignIn(tx, hashOf(token), keyId, SIGN_IN_MS)
  await audit(tx, entryOf(author, 'session.offer', `key ${keyId}`))
  return token
}
