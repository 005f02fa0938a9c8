import { afterAll, beforeAll, expect, test, vi } from 'vitest'

beforeAll(() => {
  vi.stubGlobal('location', { origin: 'http://sluice.test' })
  vi.stubGlobal('document', { addEventListener: () => {}, visibilityState: 'visible' })
})
afterAll(() => {
  vi.unstubAllGlobals()
})

test('hides what was seen before from the next person who signs in, even if the session expired', async () => {
  const { client, queries } = await import('./connection.ts')
  const { signIn, forgetSession } = await import('./session.tsx')
  const session = { name: 'bob', role: 'submitter', permissions: ['jobs:read'], csrfToken: 'c' }
  vi.spyOn(client.access, 'signIn').mockResolvedValue(session as never)
  queries.setQueryData(['jobs'], 'of ann')
  queries.setQueryData(['session'], null)
  await signIn({ key: 'slk_bob' })
  expect(queries.getQueryData(['jobs'])).toBeUndefined()
  expect(queries.getQueryData(['session'])).toEqual(session)
  forgetSession()
  expect(queries.getQueryData(['session'])).toBeNull()
})
