import { beforeAll, describe, expect, test } from 'vitest'
import { transactWithRetries } from '../../src/db/with-retries.ts'
import { authorOfDatabase } from '../../src/engine/access/author.ts'
import { offerSignIn } from '../../src/engine/access/sessions.ts'
import { useDatabase } from '../support/database.ts'
import { type Answer, useServer } from '../support/http-server.ts'

const database = useDatabase()
const server = useServer(database)
let key = ''

beforeAll(async () => {
  key = await server.keyOf('platform_admin', 'ann')
})

interface SignedIn {
  readonly cookie: string
  readonly csrf: string
}

function cookieOf(answer: Answer): string {
  return answer.headers['set-cookie']![0]!.split(';')[0]!
}

async function signIn(body: object = { key }): Promise<SignedIn> {
  const answer = await server.call('POST', '/session', { body })
  expect(answer.status, answer.text).toBe(201)
  return { cookie: cookieOf(answer), csrf: answer.json<{ csrfToken: string }>().csrfToken }
}

const lane = { body: { slots: 3 } }
const LANE = '/admin/workers/lanes/interactive'

describe('signing in', () => {
  test('gives a cookie that scripts cannot read and other sites cannot send', async () => {
    const answer = await server.call('POST', '/session', { body: { key } })
    const [cookie] = answer.headers['set-cookie']!
    expect(cookie).toMatch(
      /^sluice_session=sls_[A-Za-z0-9_-]{43}; Path=\/; Expires=[^;]+; HttpOnly; SameSite=Strict$/,
    )
    expect(answer.json()).toMatchObject({ name: 'ann', role: 'platform_admin' })
    const hours = (Date.parse(answer.json<{ expiresAt: string }>().expiresAt) - Date.now()) / 3_600_000
    expect(Math.round(hours)).toBe(12)
    expect(answer.text).not.toContain('sls_')
  })

  test('over TLS gives one that is sent over TLS only, to this host only', async () => {
    const headers = { origin: 'https://sluice.example', host: 'sluice.example' }
    const answer = await server.call('POST', '/session', { body: { key }, headers })
    expect(answer.headers['set-cookie']![0]).toMatch(
      /^__Host-sluice_session=.*; HttpOnly; Secure; SameSite=Strict$/,
    )
    expect((await server.call('GET', '/session', { headers: { cookie: cookieOf(answer) } })).status).toBe(200)
  })

  test('over plain HTTP gives a cookie that is not taken over TLS, where anybody on the way could have set it', async () => {
    const { cookie, csrf } = await signIn()
    const host = 'sluice.example'
    const page = { cookie, host, 'sec-fetch-site': 'same-origin' }
    const get = await server.call('GET', '/session', { headers: page })
    expect([get.status, get.json().code]).toEqual([401, 'UNAUTHENTICATED'])
    const headers = { cookie, host, origin: `https://${host}`, 'x-sluice-csrf': csrf }
    expect((await server.call('PATCH', LANE, { ...lane, headers })).status).toBe(401)

    const plain = { cookie, host, origin: `http://${host}`, 'x-sluice-csrf': csrf }
    expect((await server.call('PATCH', LANE, { ...lane, headers: plain })).status).toBe(200)
  })

  test.each([
    ['a wrong key', () => ({ key: `slk_${'A'.repeat(43)}` })],
    ['a session’s token', () => ({ key: `sls_${'A'.repeat(43)}` })],
    ['a wrong token', () => ({ token: `slt_${'A'.repeat(43)}` })],
    ['a key as token', () => ({ token: key })],
    ['an empty key', () => ({ key: '' })],
    ['a key with NUL', () => ({ key: `slk_\0${'A'.repeat(42)}` })],
  ])('with %s is refused with 401 and no cookie', async (_, body) => {
    const answer = await server.call('POST', '/session', { body: body() })
    expect([answer.status, answer.json().code]).toEqual([401, 'UNAUTHENTICATED'])
    expect(answer.headers['set-cookie']).toBeUndefined()
  })

  test.each([
    ['nothing', {}],
    ['both', { key: 'a', token: 'b' }],
    ['a number', { key: 1 }],
    ['another field', { password: 'x' }],
    ['a list', []],
  ])('with %s is refused with 400', async (_, body) => {
    expect((await server.call('POST', '/session', { body })).status).toBe(400)
  })

  test('with more than a key can be is refused before it is read', async () => {
    const answer = await server.call('POST', '/session', { body: { key: 'x'.repeat(5000) } })
    expect([answer.status, answer.json().code]).toEqual([413, 'PAYLOAD_TOO_LARGE'])
  })

  test('with a key where it does not belong takes nothing from the key', async () => {
    const misplaced = await server.keyOf('viewer')
    expect((await server.call('POST', '/session', { body: { token: misplaced } })).status).toBe(401)
    expect(
      (await server.call('GET', '/session', { headers: { cookie: `sluice_session=${misplaced}` } })).status,
    ).toBe(401)
    expect((await server.call('POST', '/session', { body: { key: misplaced } })).status).toBe(201)
    expect((await server.call('GET', '/session', { key: misplaced })).status).toBe(200)
  })

  test('on behalf of another site is refused', async () => {
    for (const headers of [{ 'sec-fetch-site': 'cross-site' }, { origin: 'https://evil.example' }] as const)
      expect((await server.call('POST', '/session', { body: { key }, headers })).status).toBe(403)
  })

  test('with a token that was offered works once', async () => {
    const { db } = server.app.services
    const offer = () => transactWithRetries(db, (tx) => offerSignIn(tx, authorOfDatabase('up')))
    const token = (await offer())!
    expect(token).toMatch(/^slt_[A-Za-z0-9_-]{43}$/)
    const answers = await Promise.all(
      Array.from({ length: 5 }, () => server.call('POST', '/session', { body: { token } })),
    )
    expect(answers.map(({ status }) => status).sort()).toEqual([201, 401, 401, 401, 401])
    const late = (await offer())!
    await database.sql('update sluice.sign_ins set expires_at = now()')
    expect((await server.call('POST', '/session', { body: { token: late } })).status).toBe(401)
  })
})

describe('a session', () => {
  test('may do what its key may', async () => {
    const { cookie, csrf } = await signIn()
    expect((await server.call('GET', '/keys', { headers: { cookie } })).status).toBe(200)
    const headers = { cookie, 'x-sluice-csrf': csrf }
    expect((await server.call('PATCH', LANE, { ...lane, headers })).status).toBe(200)
    const [entry] = await database.sql<{ actor: string; key_id: string }>(
      `select actor, key_id from sluice.audit where action = 'lane.change' order by id desc limit 1`,
    )
    expect(entry!.actor).toBe('ann')
    const viewer = await signIn({ key: await server.keyOf('viewer') })
    const asViewer = { cookie: viewer.cookie, 'x-sluice-csrf': viewer.csrf }
    expect((await server.call('PATCH', LANE, { ...lane, headers: asViewer })).status).toBe(403)
  })

  test('gets its CSRF token again, the same in every tab', async () => {
    const { cookie, csrf } = await signIn()
    for (let tab = 0; tab < 2; tab++)
      expect((await server.call('GET', '/session', { headers: { cookie } })).json().csrfToken).toBe(csrf)
  })

  test('changes nothing without its own CSRF token', async () => {
    const { cookie, csrf } = await signIn()
    const another = await signIn()
    const wrong = [undefined, '', 'x', `${csrf}x`, csrf.slice(1), another.csrf, cookie.split('=')[1]!]
    for (const token of wrong) {
      const headers = { cookie, ...(token !== undefined && { 'x-sluice-csrf': token }) }
      for (const [method, path, body] of [
        ['PATCH', LANE, lane.body],
        ['POST', '/keys', { name: 'x', role: 'viewer' }],
        ['DELETE', '/session', undefined],
      ] as const) {
        const answer = await server.call(method, path, { headers, body })
        expect([method, token, answer.status]).toEqual([method, token, 403])
      }
    }
    expect((await server.call('GET', '/session', { headers: { cookie } })).status).toBe(200)
  })

  test.each([
    ['a page of another site', { 'sec-fetch-site': 'cross-site' }, 403],
    ['a page of a neighbouring host', { 'sec-fetch-site': 'same-site' }, 403],
    ['a page of another origin, in an old browser', { origin: 'https://evil.example' }, 403],
    ['a page without an origin', { origin: 'null' }, 403],
    ['another port of this host', { origin: 'http://127.0.0.1:1' }, 403],
    ['one of our pages', { 'sec-fetch-site': 'same-origin' }, 200],
    ['the address bar', { 'sec-fetch-site': 'none' }, 200],
  ])('is taken from %s: %o -> %i', async (_, given, status) => {
    const { cookie, csrf } = await signIn()
    const headers = { cookie, 'x-sluice-csrf': csrf, ...given }
    expect((await server.call('PATCH', LANE, { ...lane, headers })).status).toBe(status)
    expect((await server.call('GET', '/session', { headers })).status).toBe(status)
  })

  test('does not cover up a wrong key that comes with it', async () => {
    const { cookie } = await signIn()
    const answer = await server.call('GET', '/session', { key: `slk_${'B'.repeat(43)}`, headers: { cookie } })
    expect(answer.status).toBe(401)
  })

  test('ends on request, with its key, and after its lifetime', async () => {
    const out = await signIn()
    const headers = { cookie: out.cookie, 'x-sluice-csrf': out.csrf }
    const left = await server.call('DELETE', '/session', { headers })
    expect(left.status).toBe(204)
    expect(left.headers['set-cookie']![0]).toMatch(/^sluice_session=; .*Expires=Thu, 01 Jan 1970/)
    expect((await server.call('GET', '/session', { headers })).status).toBe(401)

    const short = await server.keyOf('viewer')
    const { cookie } = await signIn({ key: short })
    const { keyId } = (await server.call('GET', '/session', { headers: { cookie } })).json<{
      keyId: string
    }>()
    expect((await server.call('DELETE', `/keys/${keyId}`, { key })).status).toBe(200)
    expect((await server.call('GET', '/session', { headers: { cookie } })).status).toBe(401)

    const old = await signIn()
    await database.sql('update sluice.sessions set expires_at = now()')
    expect((await server.call('GET', '/session', { headers: { cookie: old.cookie } })).status).toBe(401)
  })

  test('lives no longer than its key', async () => {
    const body = { name: 'brief', role: 'viewer', expires: '1h' }
    const created = (await server.call('POST', '/keys', { key, body })).json<{
      key: string
      expiresAt: string
    }>()
    const answer = await server.call('POST', '/session', { body: { key: created.key } })
    expect(answer.json().expiresAt).toBe(created.expiresAt)
  })

  test('is one of at most a hundred of its key: the oldest go', async () => {
    const many = await server.keyOf('viewer', 'many')
    const first = await signIn({ key: many })
    for (let times = 0; times < 100; times++) await signIn({ key: many })
    const [row] = await database.sql<{ sessions: number }>(
      `select count(*)::integer as sessions from sluice.sessions s join sluice.api_keys k on k.id = s.key_id where k.name = 'many'`,
    )
    expect(row!.sessions).toBe(100)
    expect((await server.call('GET', '/session', { headers: { cookie: first.cookie } })).status).toBe(401)
  })
})
