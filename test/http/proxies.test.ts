import { randomBytes } from 'node:crypto'
import { request as send } from 'node:http'
import { describe, expect, test } from 'vitest'
import { useDatabase } from '../support/database.ts'
import { useServer } from '../support/http-server.ts'

const database = useDatabase()
const PROXY = '127.0.0.2'
const server = useServer(database, { trustProxy: PROXY })

interface Sent {
  readonly status: number
  readonly headers: Readonly<Record<string, unknown>>
  readonly body: { readonly code?: string }
}

/** Sends a request from one of this machine's own addresses. */
function ask(from: string, headers: Record<string, string>, method = 'GET', body = ''): Promise<Sent> {
  const { hostname, port } = new URL(server.url)
  const type = body === '' ? {} : { 'content-type': 'application/json' }
  return new Promise((resolve, reject) => {
    const options = { hostname, port, method, path: '/api/v1/session', localAddress: from, agent: false }
    const sent = send({ ...options, headers: { ...headers, ...type } }, (response) => {
      let text = ''
      response.setEncoding('utf8').on('data', (chunk: string) => {
        text += chunk
      })
      response.on('end', () =>
        resolve({
          status: response.statusCode ?? 0,
          headers: response.headers,
          body: text === '' ? {} : JSON.parse(text),
        }),
      )
    })
    sent.on('error', reject)
    sent.end(body)
  })
}

const wrong = (forwarded: string) => ({
  authorization: `Bearer slk_${randomBytes(32).toString('base64url')}`,
  'x-forwarded-for': forwarded,
})

async function lastAddress(): Promise<string> {
  const { entries } = await server.app.access.readAudit({ action: 'access.authenticate' }, { limit: 1 })
  return entries[0]!.target ?? ''
}

describe('the address of a caller', () => {
  test('is what a named proxy says, and the last that no proxy has said', async () => {
    expect((await ask(PROXY, wrong('203.0.113.9'))).status).toBe(401)
    expect(await lastAddress()).toBe('address 203.0.113.9')

    expect((await ask(PROXY, wrong('198.51.100.1, 203.0.113.10'))).status).toBe(401)
    expect(await lastAddress(), 'what the caller wrote before the proxy did').toBe('address 203.0.113.10')
  })

  test('is not what anybody else says: who guesses cannot change it with each guess', async () => {
    const codes: (string | undefined)[] = []
    for (let guess = 0; guess < 22; guess++)
      codes.push((await ask('127.0.0.3', wrong(`203.0.113.${guess + 20}`))).body.code)

    expect(await lastAddress()).toBe('address 127.0.0.3')
    expect(codes.slice(-2)).toEqual(['TOO_MANY_FAILURES', 'TOO_MANY_FAILURES'])
  })

  test('keeps those apart who share a proxy', async () => {
    for (let guess = 0; guess < 22; guess++) await ask(PROXY, wrong('192.0.2.1'))

    expect((await ask(PROXY, wrong('192.0.2.1'))).body.code).toBe('TOO_MANY_FAILURES')
    expect((await ask(PROXY, wrong('192.0.2.2'))).body.code).toBe('UNAUTHENTICATED')
  })
})

describe('TLS', () => {
  test.each([
    [PROXY, '__Host-sluice_session='],
    ['127.0.0.4', 'sluice_session='],
  ])('is what X-Forwarded-Proto says, of a named proxy only: %s', async (from, name) => {
    const body = JSON.stringify({ key: await server.keyOf('viewer') })

    const signedIn = await ask(from, { 'x-forwarded-proto': 'https' }, 'POST', body)

    expect(signedIn.status).toBe(201)
    expect(String(signedIn.headers['set-cookie']).startsWith(name)).toBe(true)
  })

  test('behind a named proxy does not take a cookie of plain HTTP', async () => {
    const body = JSON.stringify({ key: await server.keyOf('viewer') })
    const plain = String((await ask('127.0.0.4', {}, 'POST', body)).headers['set-cookie']).split(';')[0]!

    expect((await ask('127.0.0.4', { cookie: plain })).status).toBe(200)
    expect((await ask(PROXY, { cookie: plain, 'x-forwarded-proto': 'https' })).status).toBe(401)
  })
})
