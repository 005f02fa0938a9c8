import { isErrorCode, SluiceError } from '../errors.ts'
import type { Link, Query } from './link.ts'
import { Patience } from './patience.ts'
import { readEvents, type ServerEvent } from './read-events.ts'

export interface StreamOptions {
  /** Ends the stream with the signal's reason. */
  readonly signal?: AbortSignal | undefined
  /** Called with true when the stream is connected, and with false when it is interrupted and will be resumed. */
  readonly onLink?: ((up: boolean) => void) | undefined
}

/**
 * The events of a stream, until one is called `end`.
 *
 * An interrupted stream is resumed where it stopped, at any server that responds, as often as needed.
 *
 * @throws {SluiceError} the server's error: `UNAUTHENTICATED`, `FORBIDDEN`, and errors about missing things in the
 * path.
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
    // Servers that shut down end their streams without an error.
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
