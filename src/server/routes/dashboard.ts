import { randomBytes } from 'node:crypto'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { SluiceError } from '../../errors.ts'
import { DashboardFiles, type PageFile } from '../http/dashboard-files.ts'
import type { Server } from '../parts.ts'

/** The placeholder in the built page that each response replaces with its own nonce. */
const NONCE_MARK = '__NONCE__'

/** The name of an asset contains a hash of its content, so a cached copy never becomes stale. */
const FOREVER = 'public, max-age=31536000, immutable'

/**
 * Scripts and styles come from this server only. The nonce is for the one style that a library writes into the page while a
 * dialog is open; there is no `unsafe-inline`.
 */
function pagePolicy(nonce: string): string {
  return [
    "default-src 'none'",
    "script-src 'self'",
    `style-src 'self' 'nonce-${nonce}'`,
    "img-src 'self' data:",
    "font-src 'self'",
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join('; ')
}

const NOT_BUILT = `<!doctype html><html lang="en"><title>Sluice</title>
<p>The server runs. The dashboard is not built: <code>npm run build</code> makes it.</p>
<p><a href="/docs">HTTP reference</a></p></html>`

/** The page of the dashboard. It is the same for every address of the dashboard. */
export class DashboardPage {
  readonly files = new DashboardFiles()

  send(reply: FastifyReply): FastifyReply {
    const page = this.files.find('index.html')?.body.toString('utf8') ?? NOT_BUILT
    const nonce = randomBytes(16).toString('base64')
    return reply
      .header('content-security-policy', pagePolicy(nonce))
      .header('cross-origin-opener-policy', 'same-origin')
      .type('text/html; charset=utf-8')
      .send(page.replaceAll(NONCE_MARK, nonce))
  }
}

/** `/` and the files of the dashboard. They need no key, because everything in them is also in the published package. */
export function dashboardRoutes(server: Server, page: DashboardPage): void {
  const { files } = page
  const open = { config: { access: 'public' as const }, schema: { hide: true } }
  server.get('/', open, async (_request, reply) => page.send(reply))
  server.get('/favicon.svg', open, async (request, reply) =>
    sendFile(request, reply.header('cache-control', 'public, max-age=86400'), files.find('favicon.svg')),
  )
  server.get<{ Params: { name: string } }>('/assets/:name', open, async (request, reply) =>
    sendFile(request, reply.header('cache-control', FOREVER), files.find(`assets/${request.params.name}`)),
  )
}

/** Whether a browser opened an address of the dashboard, such as `/jobs/42`. Programs do not ask for HTML and get a 404. */
export function isNavigation({ method, url, headers }: FastifyRequest): boolean {
  return (
    method === 'GET' &&
    !/^\/(?:api|assets|docs)(?:\/|$)/.test(url.split('?', 1)[0] ?? '') &&
    headers.accept?.includes('text/html') === true
  )
}

/** @throws {SluiceError} `ROUTE_NOT_FOUND`: a page that was loaded before an update requests a file that no longer exists. */
function sendFile(request: FastifyRequest, reply: FastifyReply, file: PageFile | undefined): FastifyReply {
  if (file === undefined) {
    reply.header('cache-control', 'no-store')
    throw new SluiceError('ROUTE_NOT_FOUND', 'the dashboard has no such file: reload the page')
  }
  reply.type(file.type).header('vary', 'accept-encoding')
  if (file.gzip === undefined || !/\bgzip\b/.test(request.headers['accept-encoding'] ?? ''))
    return reply.send(file.body)
  return reply.header('content-encoding', 'gzip').send(file.gzip)
}
