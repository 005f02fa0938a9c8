import { createHash, randomBytes, timingSafeEqual } from 'node:crypto'

/**
 * The purpose of a secret. A token of one kind is never accepted as another, because the prefix is part of the hashed
 * text.
 */
export type SecretKind = 'key' | 'session' | 'sign-in'

const PREFIX: Readonly<Record<SecretKind, string>> = { key: 'slk_', session: 'sls_', 'sign-in': 'slt_' }
/** 32 bytes in base64url. */
const RANDOM = /^[A-Za-z0-9_-]{43}$/
/** How many bytes of a hash the database is searched for. */
const LOOKUP_BYTES = 8

/** Creates a secret of 256 random bits. It is returned to its owner and not stored. */
export function newSecret(kind: SecretKind): string {
  return PREFIX[kind] + randomBytes(32).toString('base64url')
}

/** True for a text in the form of such a secret. Anything else is rejected without a query. */
export function looksLike(kind: SecretKind, text: string): boolean {
  const prefix = PREFIX[kind]
  return text.startsWith(prefix) && RANDOM.test(text.slice(prefix.length))
}

export function hashOf(secret: string): Buffer {
  return createHash('sha256').update(secret).digest()
}

export function lookupOf(hash: Buffer): Buffer {
  return hash.subarray(0, LOOKUP_BYTES)
}

/** Compares in constant time. */
export function sameHash(one: Buffer, other: Buffer): boolean {
  return one.length === other.length && timingSafeEqual(one, other)
}
