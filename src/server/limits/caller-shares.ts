import type { IncomingHttpHeaders } from 'node:http'
import { SluiceError } from '../../errors.ts'
import { onDisconnect } from '../http/on-disconnect.ts'
import type { Server } from '../parts.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** How much of its key's share a request takes while it is worked on: 1 unless said; 0 for what mostly waits. */
    share?: number
  }
}

export interface ShareLimits {
  /** Of one key, worked on at once. Others are never behind more than this in the line for a connection. */
  readonly atOnce: number
  /** Of one key, waiting for that. More are refused. */
  readonly waiting: number
}

/** A request that reads or writes many rows: two of them at once leave connections for everybody else. */
export const LARGE_SHARE = 32

/** A request that may be answered with megabytes: four of them at once, as many as there are connections. */
export const RESULT_SHARE = 16

interface Line {
  taken: number
  readonly waiting: { readonly share: number; readonly go: () => void }[]
}

/** Shares a server out among keys: each has so much under way at once, and the rest of its requests wait behind its own. */
export class CallerShares {
  readonly #limits: ShareLimits
  readonly #lines = new Map<string, Line>()

  constructor(limits: ShareLimits) {
    this.#limits = limits
  }

  /** How many keys have something under way. */
  get size(): number {
    return this.#lines.size
  }

  /**
   * Waits until the key has so much of its share left. Call what it gives once that is free again.
   *
   * @throws {SluiceError} `TOO_MANY_REQUESTS`.
   */
  async take(key: string, wanted: number): Promise<() => void> {
    const share = Math.min(wanted, this.#limits.atOnce)
    const line = this.#lines.get(key) ?? { taken: 0, waiting: [] }
    this.#lines.set(key, line)
    if (line.waiting.length > 0 || line.taken + share > this.#limits.atOnce) {
      if (line.waiting.length >= this.#limits.waiting) throw tooMany(this.#limits)
      await new Promise<void>((go) => line.waiting.push({ share, go }))
    } else line.taken += share
    let isFree = false
    return () => {
      if (isFree) return
      isFree = true
      this.#free(key, line, share)
    }
  }

  #free(key: string, line: Line, share: number): void {
    line.taken -= share
    for (let next = line.waiting[0]; next !== undefined; next = line.waiting[0]) {
      if (line.taken + next.share > this.#limits.atOnce) return
      line.waiting.shift()
      // Taken here, not when it wakes: somebody who comes in between would be let in too.
      line.taken += next.share
      next.go()
    }
    if (line.taken === 0) this.#lines.delete(key)
  }
}

/** A larger body takes a large share while it is read, also on a route that takes none: it is in memory until it has arrived. */
const LARGE_BODY = 1024 * 1024

interface Held {
  free(): void
  /** Its handler may be at work. */
  isHandled: boolean
  /** Its answer has been handed over, or nobody waits for it. */
  isGone: boolean
}

/**
 * Lets every request wait for the share of its key before its body is read, and gives the share back when the handler is done and its
 * answer has left. One whose client has gone keeps it until its handler is done, or has taken too long: what it does in the
 * database goes on. One whose client does not read the answer keeps it while that is in memory.
 */
export function registerCallerShares(server: Server, limits: ShareLimits): void {
  const shares = new CallerShares(limits)
  const all = new WeakMap<object, Held>()
  server.addHook('onRequest', async (request, reply) => {
    const { caller } = request
    const { share = 1 } = request.routeOptions.config
    const wanted = isLarge(request.headers) ? LARGE_SHARE : share
    if (caller === null || wanted === 0) return
    const held: Held = { free: await shares.take(caller.keyId, wanted), isHandled: false, isGone: false }
    all.set(request, held)
    onDisconnect(reply.raw, () => {
      held.isGone = true
      if (!held.isHandled) held.free()
    })
    // Its client left while it waited: nobody would hear the answer.
    return reply.raw.destroyed ? reply.hijack() : undefined
  })
  server.addHook('preHandler', async (request) => {
    const held = all.get(request)
    if (held === undefined) return
    if (request.routeOptions.config.share === 0) held.free()
    else held.isHandled = true
  })
  server.addHook('onSend', async (request) => {
    const held = all.get(request)
    if (held === undefined) return
    held.isHandled = false
    if (held.isGone) held.free()
  })
}

function isLarge(headers: IncomingHttpHeaders): boolean {
  const { 'content-length': length, 'transfer-encoding': encoding } = headers
  return encoding !== undefined || Number(length ?? 0) > LARGE_BODY
}

function tooMany({ atOnce, waiting }: ShareLimits): SluiceError {
  return new SluiceError(
    'TOO_MANY_REQUESTS',
    `this key has the maximum number of concurrent requests at this server (${atOnce}; lists and bulk requests count as ${LARGE_SHARE}), and ${waiting} more are waiting: retry in a second, with fewer at a time`,
    { details: { retryAfter: 1 } },
  )
}
