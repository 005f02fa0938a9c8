import { useSyncExternalStore } from 'react'

/** How far the server's clock is ahead of this one. Ages are told by the server's: people's clocks are wrong by minutes. */
let aheadMs = 0
let now = Date.now()
const listeners = new Set<() => void>()
let timer: ReturnType<typeof setInterval> | undefined

export function tellServerTime(at: Date): void {
  aheadMs = at.getTime() - Date.now()
}

function tick(): void {
  now = Date.now() + aheadMs
  for (const listener of listeners) listener()
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener)
  if (timer === undefined) {
    now = Date.now() + aheadMs
    timer = setInterval(tick, 1000)
  }
  return () => {
    listeners.delete(listener)
    if (listeners.size > 0) return
    clearInterval(timer)
    timer = undefined
  }
}

/** The server's time in milliseconds, told once a second to all who show ages: one timer, however many rows. */
export function useNow(): number {
  return useSyncExternalStore(subscribe, () => now)
}
