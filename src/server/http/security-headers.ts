import { SluiceError } from '../../errors.ts'
import type { Server } from '../parts.ts'

/** Answers are data: no browser is to guess a type, run them, frame them or keep them. Pages set their own policy. */
export const SECURITY_HEADERS = {
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'cache-control': 'no-store',
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
  'cross-origin-resource-policy': 'same-origin',
}

export function registerSecurityHeaders(server: Server): void {
  server.addHook('onRequest', async (_request, reply) => {
    reply.headers(SECURITY_HEADERS)
  })
}

/** Node would answer this one itself, without any of our headers; the server is told to leave it to us. */
export function requireHost(server: Server): void {
  server.addHook('onRequest', async ({ headers, raw }) => {
    if (headers.host === undefined && raw.httpVersion === '1.1')
      throw new SluiceError('INVALID_ARGUMENT', 'the header Host is missing', {
        details: { argument: 'host' },
      })
  })
}
