import { expect, test } from 'vitest'
import { useDatabase } from '../support/database.ts'
import { useServer } from '../support/http-server.ts'

const database = useDatabase()
const server = useServer(database)
const BROWSER = { accept: 'text/html,application/xhtml+xml', 'accept-encoding': 'gzip, br' }

test('a browser gets the page at every address of the dashboard, with a policy that allows nothing inline', async () => {
  const nonces = new Set<string>()
  for (const path of ['/', '/jobs/42', '/lanes?name=a']) {
    const { status, headers, text } = await server.at('GET', path, { headers: BROWSER })
    expect([path, status, headers['content-type']]).toEqual([path, 200, 'text/html; charset=utf-8'])
    expect(headers['cache-control']).toBe('no-store')
    const policy = String(headers['content-security-policy'])
    expect(policy).toContain("script-src 'self';")
    expect(policy).not.toContain('unsafe')
    const nonce = /'nonce-([^']+)'/.exec(policy)![1]!
    expect(text).toContain(`nonce="${nonce}"`)
    nonces.add(nonce)
  }
  expect(nonces.size).toBe(3)
})

test('its files are kept for good by browsers, come compressed to those that take it, and no other file is given out', async () => {
  const { text } = await server.at('GET', '/', { headers: BROWSER })
  const script = /src="(\/assets\/[^"]+\.js)"/.exec(text)![1]!
  const answer = await server.at('GET', script, { headers: BROWSER })
  expect([answer.status, answer.headers['content-encoding'], answer.headers['cache-control']]).toEqual([
    200,
    'gzip',
    'public, max-age=31536000, immutable',
  ])
  const plain = await server.at('GET', script)
  expect([plain.headers['content-encoding'], plain.headers['content-type']]).toEqual([
    undefined,
    'text/javascript; charset=utf-8',
  ])
  for (const path of [
    '/assets/..%2findex.html',
    '/assets/%2e%2e%2f%2e%2e%2fpackage.json',
    '/assets/none.js',
  ]) {
    const { status, headers } = await server.at('GET', path, { headers: BROWSER })
    expect([path, status, headers['cache-control']]).toEqual([path, 404, 'no-store'])
  }
})

test('the routes of the interface respond to every caller', async () => {
  const missing = await server.at('GET', '/api/v1/nothing', { headers: BROWSER })
  expect([missing.status, missing.json().code]).toEqual([404, 'ROUTE_NOT_FOUND'])
  const program = await server.at('GET', '/jobs/42')
  expect([program.status, program.json().code]).toEqual([404, 'ROUTE_NOT_FOUND'])
  const method = await server.at('POST', '/', { headers: BROWSER })
  expect([method.status, method.headers.allow]).toEqual([405, 'GET'])
})
