import { SluiceError } from '../errors.ts'
import type { Server } from './parts.ts'
import { whenGone } from './when-gone.ts'

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

/** A request that writes thousands of rows: two of them at once leave connections for everybody else. */
export const BULK_SHARE = 32

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
  async take(key: string, share: number): Promise<() => void> {
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

/**
 * Lets every request wait for the share of its key before its body is read, and gives the share back when the handler is done.
 * One whose client has gone keeps it until then: what it does in the database goes on.
 */
export function registerCallerShares(server: Server, limits: ShareLimits): void {
  const shares = new CallerShares(limits)
  const taken = new WeakMap<object, () => void>()
  const working = new WeakSet<object>()
  server.addHook('onRequest', async (request, reply) => {
    const { caller } = request
    const { share = 1 } = request.routeOptions.config
    if (caller === null || share === 0) return
    const free = await shares.take(caller.keyId, share)
    taken.set(request, free)
    whenGone(reply.raw, () => {
      if (!working.has(request)) free()
    })
    // Its client left while it waited: nobody would hear the answer.
    return reply.raw.destroyed ? reply.hijack() : undefined
  })
  server.addHook('preHandler', async (request) => {
    working.add(request)
  })
  server.addHook('onSend', async (request) => taken.get(request)?.())
}

function tooMany({ atOnce, waiting }: ShareLimits): SluiceError {
  return new SluiceError(
    'TOO_MANY_REQUESTS',
    `${atOnce} requests with this key are worked on and ${waiting} more wait: ask again in a second, with fewer at a time`,
    { details: { retryAfter: 1 } },
  )
}
