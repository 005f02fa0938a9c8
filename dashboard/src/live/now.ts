import { useEffect, useSyncExternalStore } from 'react'
import type { JobFilter, JobPage, LiveEvent, Now } from '../../../src/client/index.ts'
import { client } from '../connection.ts'
import { tellServerTime } from '../parts/clock.ts'
import { pageStream, type Source } from './page-stream.ts'

let now: Now | undefined
const listeners = new Set<() => void>()

function keep(events: readonly LiveEvent[]): void {
  const latest = events.findLast((each) => each.event === 'now')
  if (latest?.event !== 'now') return
  now = latest.data
  tellServerTime(now.at)
  for (const listener of listeners) listener()
}

/** For whoever signs in next, who may be allowed to see less. */
export function forgetNow(): void {
  now = undefined
  for (const listener of listeners) listener()
}

const NOW: Source<LiveEvent> = {
  name: 'now',
  open: (signal, onLink) => client.live({ signal, onLink }),
  deliver: keep,
}

/** Keeps the snapshot up to date while the shell is shown and `enabled`: it needs the permission to see workers. */
export function useNowStream(enabled: boolean): void {
  useEffect(() => (enabled ? pageStream.claim(NOW) : undefined), [enabled])
}

/** Also delivers the first page of a list each time it changes, at most once a second. */
export function useLiveJobs(filter: JobFilter, onPage: (page: JobPage) => void): void {
  const name = `jobs ${JSON.stringify(filter)}`
  // biome-ignore lint/correctness/useExhaustiveDependencies: the name says all of the filter
  useEffect(
    () =>
      pageStream.claim<LiveEvent>({
        name,
        open: (signal, onLink) => client.live({ signal, onLink, jobs: filter }),
        deliver(events) {
          keep(events)
          const latest = events.findLast((each) => each.event === 'jobs')
          if (latest?.event === 'jobs') onPage(latest.data)
        },
      }),
    [name, onPage],
  )
}

/** The latest snapshot; `undefined` until the first arrives. */
export function useNowSnapshot(): Now | undefined {
  return useSyncExternalStore(listen, () => now)
}

function listen(listener: () => void): () => void {
  listeners.add(listener)
  return () => listeners.delete(listener)
}
