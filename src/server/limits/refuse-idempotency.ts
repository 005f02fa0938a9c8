import { SluiceError } from '../../errors.ts'
import type { Server } from '../parts.ts'

const HEADER = 'idempotency-key'

/**
 * Refuses an `Idempotency-Key` with a `POST` that does not honour it: who sends one relies on it, and would repeat what must
 * not be done twice. With other methods it changes nothing: twice is as good as once.
 */
export function refuseIdempotency(server: Server): void {
  server.addHook('preValidation', async (request) => {
    if (request.headers[HEADER] === undefined || request.method !== 'POST' || request.is404) return
    const { headers } = (request.routeOptions.schema ?? {}) as { headers?: { properties?: object } }
    if (headers?.properties !== undefined && HEADER in headers.properties) return
    throw new SluiceError(
      'IDEMPOTENCY_UNSUPPORTED',
      `${request.method} ${request.routeOptions.url} does not support Idempotency-Key: omit it`,
    )
  })
}
