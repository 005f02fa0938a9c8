import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse, request as send } from 'node:http'
import type { AddressInfo } from 'node:net'

/** What becomes of a request: it goes its way, never arrives, is carried out and never answered, or is one too many of its key. */
export type Fate = 'pass' | 'cut before' | 'cut after' | 'too many'

export interface HttpProxy {
  readonly url: string
  /** Where requests go; may change while it runs. */
  target: string
  /** Decides about every request. Called with its path and body. */
  decide: (path: string, body: string) => Fate
  close(): Promise<void>
}

/** Decides for a proxy of workers: of so many cycles, one never arrives, and the answer to another one is lost. */
export function losesCycles(every: number): HttpProxy['decide'] {
  let cycles = 0
  return (path) => {
    if (!path.endsWith('/cycle')) return 'pass'
    const at = ++cycles % every
    return at === 0 ? 'cut after' : at === Math.floor(every / 2) ? 'cut before' : 'pass'
  }
}

/** Stands between a client and an HTTP server, and cuts connections where it is told to. */
export async function startHttpProxy(target: string): Promise<HttpProxy> {
  const server = createServer((request, response) => {
    void forward(request, response).catch(() => request.socket.destroy())
  })
  const forward = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk as Buffer)
    const body = Buffer.concat(chunks)
    const fate = proxy.decide(request.url ?? '', body.toString('utf8'))
    if (fate === 'cut before') {
      request.socket.destroy()
      return
    }
    if (fate === 'too many') {
      response.writeHead(429, { 'content-type': 'application/problem+json', 'retry-after': '1' })
      response.end(JSON.stringify({ code: 'TOO_MANY_REQUESTS', detail: 'too many', retryAfter: 1 }))
      return
    }
    const upstream = send(new URL(request.url ?? '', proxy.target), {
      method: request.method,
      headers: { ...request.headers, host: new URL(proxy.target).host },
      agent: false,
    })
    // A client that hangs up is one the server must notice.
    response.on('close', () => upstream.destroy())
    upstream.end(body)
    const [answer] = (await once(upstream, 'response')) as [IncomingMessage]
    const parts: Buffer[] = []
    for await (const part of answer) parts.push(part as Buffer)
    if (fate === 'cut after') {
      request.socket.destroy()
      return
    }
    response.writeHead(answer.statusCode ?? 502, { 'content-type': answer.headers['content-type'] ?? '' })
    response.end(Buffer.concat(parts))
  }
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const proxy: HttpProxy = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    target,
    decide: () => 'pass',
    async close() {
      const closed = once(server, 'close')
      server.close()
      server.closeAllConnections()
      await closed
    },
  }
  return proxy
}
