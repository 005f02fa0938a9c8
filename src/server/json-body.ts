import { messageOf, SluiceError } from '../errors.ts'
import type { Server } from './parts.ts'

/**
 * Bodies are JSON in UTF-8 and nothing else. Bytes that are no UTF-8 are refused instead of being replaced, and so are
 * keys that reach for a prototype. An empty body counts as none: whether one is needed is for the route to say.
 */
export function registerJsonBody(server: Server): void {
  const parse = server.getDefaultJsonParser('error', 'error')
  const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: false })
  server.removeAllContentTypeParsers()
  server.addContentTypeParser('application/json', { parseAs: 'buffer' }, (request, body, done) => {
    if (body.length === 0) return done(null, undefined)
    const charset = /;\s*charset\s*=\s*"?([^";\s]*)/i.exec(request.headers['content-type'] ?? '')?.[1]
    if (charset !== undefined && !/^utf-?8$/i.test(charset))
      return done(
        new SluiceError(
          'UNSUPPORTED_MEDIA_TYPE',
          'the body must be JSON in UTF-8, not in another character set',
        ),
      )
    try {
      void parse(request, decoder.decode(body as Buffer), (error, value) =>
        done(error === null ? null : unreadable(error), value),
      )
    } catch (error) {
      done(unreadable(error))
    }
  })
}

/** V8 quotes the text around the mistake, whatever is in it. */
const QUOTED = /,? ?(?:\.\.\.)?".*"(?:\.\.\.)? is not valid JSON$/s

function unreadable(cause: unknown): SluiceError {
  const utf8 = cause instanceof TypeError
  const why = utf8 ? 'its bytes are no UTF-8' : messageOf(cause).replace(QUOTED, '')
  return new SluiceError('INVALID_ARGUMENT', `the body cannot be read as JSON: ${why}`, {
    cause,
    details: { argument: 'body' },
  })
}
