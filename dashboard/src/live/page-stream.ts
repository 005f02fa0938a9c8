import { useSyncExternalStore } from 'react'
import { noticeRefusal } from '../connection.ts'
import { Merge } from './merge.ts'

/** Where a page hears what happens: `open` gives the events of a stream that takes itself up again, until the signal fires. */
export interface Source<Event> {
  /** The same name: the same stream, which then goes on undisturbed. */
  readonly name: string
  readonly open: (signal: AbortSignal, onLink: (up: boolean) => void) => AsyncIterable<Event>
  /** Gets all that came since the last time, at most four times a second. */
  readonly deliver: (events: readonly Event[]) => void
  /** The stream was refused, or is over. */
  readonly onEnd?: (error: unknown) => void
}

export interface LinkState {
  /** `idle`: this screen has no stream. */
  readonly state: 'idle' | 'connecting' | 'live' | 'stale' | 'over'
  /** Of this state, by the clock of this browser. */
  readonly since: number
}

/** A page nobody looks at lets go of its stream: browsers allow six connections to a server over HTTP/1.1. */
const HIDDEN_MS = 30_000

/**
 * The one stream of this page. A screen that needs another takes its place for as long as it is shown.
 *
 * A page that was hidden for half a minute hears nothing until somebody looks at it again; then it starts anew.
 */
class PageStream {
  #sources: Source<never>[] = []
  #current: { name: string; stop: AbortController } | undefined
  #link: LinkState = { state: 'idle', since: Date.now() }
  readonly #listeners = new Set<() => void>()
  #hiding: ReturnType<typeof setTimeout> | undefined

  constructor() {
    document.addEventListener('visibilitychange', () => {
      clearTimeout(this.#hiding)
      if (document.visibilityState === 'visible') this.#restart()
      else this.#hiding = setTimeout(() => this.#stop(), HIDDEN_MS)
    })
  }

  /** Listens to a source until the function it returns is called. The youngest claim holds. */
  claim<Event>(source: Source<Event>): () => void {
    const own = source as unknown as Source<never>
    this.#sources.push(own)
    this.#restart()
    return () => {
      this.#sources = this.#sources.filter((each) => each !== own)
      // A screen that makes way for another with the same stream would cut it for nothing.
      queueMicrotask(() => this.#restart())
    }
  }

  subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  get link(): LinkState {
    return this.#link
  }

  #restart(): void {
    const source = this.#sources.at(-1)
    if (source?.name === this.#current?.name) return
    this.#stop()
    if (source === undefined) this.#tell('idle')
    if (source === undefined || document.visibilityState === 'hidden') return
    const stop = new AbortController()
    this.#current = { name: source.name, stop }
    this.#tell('connecting')
    void this.#run(source, stop.signal)
  }

  #stop(): void {
    this.#current?.stop.abort()
    this.#current = undefined
  }

  async #run(source: Source<never>, signal: AbortSignal): Promise<void> {
    const merge = new Merge<never>((events) => {
      // What is delivered goes to whoever claimed last: its closures know what is on the screen now.
      if (!signal.aborted) this.#sources.findLast((each) => each.name === source.name)?.deliver(events)
    })
    try {
      for await (const event of source.open(signal, (up) => this.#tell(up ? 'live' : 'stale', signal))) {
        merge.add(event)
      }
      merge.flush()
      // All has been told: there is nothing that could become stale.
      this.#tell('over', signal)
      source.onEnd?.(undefined)
    } catch (error) {
      if (signal.aborted) return
      this.#tell('stale', signal)
      noticeRefusal(error)
      source.onEnd?.(error)
    } finally {
      merge.stop()
    }
  }

  #tell(state: LinkState['state'], signal?: AbortSignal): void {
    if (signal?.aborted === true || this.#link.state === state) return
    this.#link = { state, since: Date.now() }
    for (const listener of this.#listeners) listener()
  }
}

export const pageStream = new PageStream()

/** Whether what is on the screen is up to date. */
export function useLink(): LinkState {
  return useSyncExternalStore(pageStream.subscribe, () => pageStream.link)
}
