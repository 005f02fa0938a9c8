import { createHash, randomBytes, timingSafeEqual } from 'node:crypto'

/** What a secret is for. A token of one kind is never taken for another: the prefix is part of what is hashed. */
export type SecretKind = 'key' | 'session' | 'sign-in'

const PREFIX: Readonly<Record<SecretKind, string>> = { key: 'slk_', session: 'sls_', 'sign-in': 'slt_' }
/** 32 bytes in base64url. */
const RANDOM = /^[A-Za-z0-9_-]{43}$/
/** How much of a hash is looked for in the database. */
const LOOKUP_BYTES = 8

/** A new secret of 256 random bits. It is given to its owner and kept nowhere. */
export function newSecret(kind: SecretKind): string {
  return PREFIX[kind] + randomBytes(32).toString('base64url')
}

/** True for a text that could be such a secret. Anything else is refused without asking the database. */
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

/** Takes the same time wherever two hashes differ. */
export function sameHash(one: Buffer, other: Buffer): boolean {
  return one.length === other.length && timingSafeEqual(one, other)
}
