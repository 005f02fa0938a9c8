import { SluiceError } from '../../errors.ts'
import { checkStorable, invalidArgument } from '../../model/argument.ts'
import { MAX_REASON } from '../../model/limits.ts'
import { withoutSecrets } from '../../model/redact.ts'
import type { Server } from '../parts.ts'

const HEADER = 'x-sluice-reason'

/**
 * Reads why something is changed, for the audit: a header, so that every change has room for it, whatever its body. In a
 * header there is no place for most letters of the world, so it is written as in an address: `%C3%A4`.
 */
export function registerReason(server: Server): void {
  server.decorateRequest('reason', undefined)
  server.addHook('onRequest', async (request) => {
    const given = request.headers[HEADER]
    if (given !== undefined && request.method !== 'GET') request.reason = read(String(given))
  })
}

/** @throws {SluiceError} `INVALID_ARGUMENT` */
function read(given: string): string {
  let reason: string
  try {
    reason = decodeURIComponent(given).trim()
  } catch {
    throw invalidArgument(HEADER, given, 'a text as encodeURIComponent writes it')
  }
  if (reason.length <= MAX_REASON) return withoutSecrets(checkStorable(reason, HEADER, { min: 0 }))
  throw new SluiceError(
    'INVALID_ARGUMENT',
    `${HEADER}: ${reason.length} characters are too many: the maximum is ${MAX_REASON}`,
    { details: { argument: HEADER } },
  )
}
