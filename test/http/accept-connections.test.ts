import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { afterEach, describe, expect, test } from 'vitest'
import { acceptTogether } from '../../src/server/limits/accept-connections.ts'

const REQUEST = 'GET / HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n'

let server: Server | undefined
const clients: Socket[] = []

afterEach(async () => {
  for (const client of clients.splice(0)) client.destroy()
  server!.closeAllConnections()
  if (server!.listening) await new Promise((resolve) => server!.close(resolve))
})

/** Counts the connections that it has taken when each request is served. */
async function listen(most: number) {
  const served: number[] = []
  let taken = 0
  const http = createServer((_, response) => {
    served.push(taken)
    response.end('good')
  })
  // However busy the machine is.
  acceptTogether(http, { most, withinMs: 60_000 })
  http.on('connection', () => {
    taken++
  })
  http.listen(0, '127.0.0.1')
  await once(http, 'listening')
  server = http
  return { http, served }
}

function open(): Socket {
  const client = connect((server!.address() as AddressInfo).port, '127.0.0.1')
  clients.push(client)
  return client
}

/** Sends a request and gives the answer, all of it. */
async function ask(client = open()): Promise<string> {
  client.write(REQUEST)
  let text = ''
  for await (const chunk of client) text += chunk
  return text
}

describe('connections to a server', () => {
  test('that come at once are taken before the first of them is served', async () => {
    const { served } = await listen(100)
    const answers = await Promise.all(Array.from({ length: 30 }, () => ask()))
    for (const answer of answers) expect(answer).toMatch(/^HTTP\/1\.1 200 OK/)
    expect(served).toEqual(Array(30).fill(30))
  })

  test('are served when there are as many as may wait, while others come', async () => {
    const { served } = await listen(10)
    await Promise.all(Array.from({ length: 30 }, () => ask()))
    expect(served).toHaveLength(30)
    expect(served[0]).toBeGreaterThanOrEqual(10)
    expect(served[0]).toBeLessThan(30)
  })

  test('that come alone are served at once', async () => {
    const { served } = await listen(100)
    for (const each of [1, 2, 3]) {
      await ask()
      expect(served.at(-1)).toBe(each)
    }
  })

  test('that break off before they are served harm nobody', async () => {
    const { http, served } = await listen(100)
    const broken = open()
    http.once('connection', () => broken.resetAndDestroy())
    const answers = await Promise.all([ask(), ask()])
    expect(answers).toHaveLength(2)
    expect(served).toHaveLength(2)
  })

  test('that are taken while the server closes are let go, and it closes', async () => {
    const { http, served } = await listen(100)
    const closed = new Promise((resolve) => {
      http.once('connection', () => http.close(resolve))
    })
    const client = open()
    await Promise.all([closed, once(client.resume(), 'close')])
    expect(served).toEqual([])
  })
})
