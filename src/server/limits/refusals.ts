import type { FastifyRequest } from 'fastify'
import { audit } from '../../engine/access/audit.ts'
import { SluiceError } from '../../errors.ts'
import { withoutSecrets } from '../../model/redact.ts'
import type { ServerParts } from '../parts.ts'

/**
 * Writes a refused attempt into the audit, by itself: whatever transaction refused it has been undone. That it cannot be
 * written there is no reason to let it pass, and none to answer anything else.
 */
export async function recordRefusal(
  parts: ServerParts,
  request: FastifyRequest,
  action: string,
  refused = 'FORBIDDEN',
  target = `${request.method} ${pathOf(request)}`,
): Promise<void> {
  const { caller } = request
  const refusal = { actor: caller.name, keyId: caller.keyId, action, refused }
  if (!parts.refusals.admit(`key ${caller.keyId}`, refusal)) return
  await audit(parts.services.calls, {
    ...refusal,
    target,
    requestId: request.id,
    reason: request.reason,
  }).catch((error) =>
    request.log.warn({ err: error }, 'could not record a rejected attempt in the audit log'),
  )
}

/**
 * Does something, and writes it into the audit when it is refused (403 or 409).
 *
 * @param target What it was about. Default: the address.
 */
export async function recordingRefusals<T>(
  parts: ServerParts,
  request: FastifyRequest,
  { action, target }: { readonly action: string; readonly target?: string },
  work: () => Promise<T>,
): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (error instanceof SluiceError && (error.status === 403 || error.status === 409))
      await recordRefusal(parts, request, action, error.code, target)
    throw error
  }
}

/** Without the query, and without keys: people put secrets there. */
export function pathOf(request: FastifyRequest): string {
  return withoutSecrets(request.url.split('?', 1)[0] ?? '')
}
