import { isErrorCode, SluiceError } from '../errors.ts'
import type { Link, Query } from './link.ts'
import { Patience } from './patience.ts'
import { readEvents, type ServerEvent } from './read-events.ts'

export interface StreamOptions {
  /** Ends it with the signal's reason. */
  readonly signal?: AbortSignal | undefined
  /** Told true whenever a stream stands, and false when it has broken off and is about to be taken up again. */
  readonly onLink?: ((up: boolean) => void) | undefined
}

/**
 * The events of a stream, until one is called `end`.
 *
 * A stream that breaks off is taken up where it was, at whichever server answers, as often as it takes.
 *
 * @throws {SluiceError} what the server refuses: `UNAUTHENTICATED`, `FORBIDDEN`, and what the path names and is not there.
 */
export async function* followStream(
  link: Link,
  path: string,
  query: Query,
  { signal, onLink }: StreamOptions,
): AsyncGenerator<ServerEvent> {
  const patience = new Patience(signal)
  let last = ''
  for (;;) {
    let failure: unknown
    try {
      const headers = last === '' ? {} : { 'last-event-id': last }
      const body = await link.open(path, { query, headers, signal })
      if (body === undefined) return
      onLink?.(true)
      for await (const event of readEvents(body)) {
        if (event.event === 'denied') throw denied(event)
        patience.renew()
        if (event.id !== '') last = event.id
        yield event
        if (event.event === 'end') return
      }
    } catch (error) {
      failure = error
    }
    onLink?.(false)
    // Servers that stop end their streams without an error.
    await patience.after(failure)
  }
}

function denied({ data }: ServerEvent): SluiceError {
  const { code } = JSON.parse(data) as { code: string }
  return new SluiceError(
    isErrorCode(code) ? code : 'FORBIDDEN',
    'the key was revoked, has expired, or may no longer read this',
  )
}
