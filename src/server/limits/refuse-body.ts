import { SluiceError } from '../../errors.ts'
import type { Server } from '../parts.ts'

/**
 * Refuses a body where none is taken: who sends a field relies on it. An empty one is as good as none, since many clients
 * cannot send a `POST` without.
 */
export function refuseBody(server: Server): void {
  server.addHook('preValidation', async (request) => {
    const { body } = request
    if (body === undefined || body === null || request.is404) return
    const { schema, url } = request.routeOptions
    if ((schema as { body?: unknown } | undefined)?.body !== undefined) return
    if (typeof body === 'object' && Object.keys(body).length === 0) return
    const field = typeof body === 'object' ? `${Object.keys(body)[0]!.slice(0, 100)}: ` : ''
    throw new SluiceError(
      'INVALID_ARGUMENT',
      `${field}${request.method} ${url} does not accept a body: omit it`,
      {
        details: { argument: 'body' },
      },
    )
  })
}
