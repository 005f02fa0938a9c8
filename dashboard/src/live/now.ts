import { useEffect, useSyncExternalStore } from 'react'
import type { Lane } from '../../../src/client/index.ts'
import { client } from '../connection.ts'
import { tellServerTime } from '../parts/clock.ts'
import { pageStream, type Source } from './page-stream.ts'

/** The whole picture in a few numbers. */
export interface Now {
  readonly at: Date
  readonly admission: Awaited<ReturnType<typeof client.admission>>
  readonly lanes: readonly (Lane & { readonly depth: number; readonly waitedMs: number })[]
  readonly workers: { readonly live: number; readonly busy: number; readonly draining: number }
}

const PERIOD_MS = 2000

async function* look(signal: AbortSignal, onLink: (up: boolean) => void): AsyncGenerator<Now> {
  while (!signal.aborted) {
    try {
      const [status, admission] = await Promise.all([client.status(), client.admission()])
      onLink(true)
      const lanes = status.lanes.map((lane) => {
        const queues = status.queues.filter((queue) => queue.lane === lane.name)
        return {
          ...lane,
          depth: queues.reduce((sum, { depth }) => sum + depth, 0),
          waitedMs: Math.max(0, ...queues.map(({ waitedMs }) => waitedMs)),
        }
      })
      yield {
        at: new Date(),
        admission,
        lanes,
        workers: {
          live: status.workers.length,
          busy: status.workers.filter(({ running }) => running > 0).length,
          draining: status.workers.filter(({ draining }) => draining).length,
        },
      }
    } catch {
      onLink(false)
    }
    await new Promise((resolve) => setTimeout(resolve, PERIOD_MS))
  }
}

let now: Now | undefined
const listeners = new Set<() => void>()

const NOW: Source<Now> = {
  name: 'now',
  open: look,
  deliver(events) {
    now = events.at(-1) ?? now
    if (now !== undefined) tellServerTime(now.at)
    for (const listener of listeners) listener()
  },
}

/** Keeps the picture up to date while the shell is shown, to whoever may see workers. */
export function useNowStream(enabled: boolean): void {
  useEffect(() => {
    if (!enabled) return
    return pageStream.claim(NOW)
  }, [enabled])
}

/** The latest picture; `undefined` until the first has come. */
export function useNowPicture(): Now | undefined {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
    () => now,
  )
}
