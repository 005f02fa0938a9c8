import { type Static, Type } from 'typebox'
import { KeyId } from './keys.ts'
import { Name, TimestampOrNull } from './scalars.ts'

/** No pattern, because error messages show values that do not match one, and these are secrets. */
const Secret = (description: string) => Type.String({ description })

export const SignInBody = Type.Object(
  {
    key: Type.Optional(Secret('An API key')),
    token: Type.Optional(Secret('A token for one session, as `sluice up` prints it')),
  },
  { additionalProperties: false, minProperties: 1, maxProperties: 1 },
)

export const SessionBody = Type.Object({
  keyId: KeyId,
  name: Type.String(),
  role: Name,
  permissions: Type.Array(Type.String()),
  expiresAt: Type.Unsafe<string | null>({
    ...TimestampOrNull,
    description: 'When the session ends; null for a request with a key',
  }),
  csrfToken: Type.Unsafe<string | null>({
    type: ['string', 'null'],
    description:
      'For the header x-sluice-csrf of every request that changes something; null for a request with a key',
  }),
})
export type SessionBody = Static<typeof SessionBody>
